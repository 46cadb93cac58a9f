// What a dashboard of Grafana may be, by the types that Grafana publishes; `cargo xtask dashboards` puts every dashboard below and has them
// compared. Published enumerations are written as their words, and what is in a panel goes by its type.
import type { AnnotationQuery, Dashboard, DataTransformerConfig, FieldConfig, MatcherConfig, Panel, TableFieldOptions } from "@grafana/schema";
import type * as heatmap from "@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as table from "@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type * as text from "@grafana/schema/dist/esm/raw/composable/text/panelcfg/x/TextPanelCfg_types.gen";
import type * as timeline from "@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";
import type * as timeseries from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

/** An enumeration as JSON has it. */
type Words<T> = T extends string ? `${T}`
  : T extends number | boolean | null | undefined ? T
  : T extends (infer Item)[] ? Words<Item>[]
  : T extends object ? { [Key in keyof T]: Words<T[Key]> }
  : T;

/** Queries of Prometheus are not among the published types. */
interface Target {
  refId: string;
  datasource: { type: "prometheus"; uid: string };
  expr: string;
  instant: boolean;
  range: boolean;
  format?: "table" | "heatmap";
  legendFormat?: string;
}

interface Overrides {
  matcher: MatcherConfig;
  properties: { id: string; value?: unknown }[];
}

type Drawn<Type extends string, Options, Custom> =
  & Words<Pick<Panel, "id" | "title" | "description" | "gridPos" | "datasource">>
  & {
    type: Type;
    options: Words<Partial<Options>>;
    targets: Target[];
    transformations?: Words<DataTransformerConfig>[];
    fieldConfig: { defaults: Words<Omit<FieldConfig, "custom">> & { custom?: Words<Partial<Custom>> }; overrides: Overrides[] };
  };

type AnyPanel =
  | Drawn<"stat", stat.Options, {}>
  | Drawn<"timeseries", timeseries.Options, timeseries.FieldConfig>
  | Drawn<"heatmap", heatmap.Options, heatmap.FieldConfig>
  | Drawn<"state-timeline", timeline.Options, timeline.FieldConfig>
  | Drawn<"table", table.Options, TableFieldOptions>
  | Words<Pick<Panel, "id" | "title" | "description" | "gridPos">> & { type: "text"; options: Words<Partial<text.Options>> }
  | Words<Pick<Panel, "title" | "gridPos">> & { id: number; type: "row"; collapsed: boolean; panels: [] };

/** Annotations of Prometheus have words of their own. */
type Annotation = Words<AnnotationQuery> & { expr: string; step: string; titleFormat: string; textFormat: string; tagKeys: string };

type Classic = Omit<Words<Dashboard>, "panels" | "annotations"> & { panels: AnyPanel[]; annotations: { list: Annotation[] } };

// Were any of these taken, nothing below would be compared.
// @ts-expect-error: no panel has this type.
export const noSuchPanel: AnyPanel["type"] = "tabel";
// @ts-expect-error: an enumeration has only its words.
export const noSuchWord: Words<stat.Options["graphMode"]> = "nonne";
