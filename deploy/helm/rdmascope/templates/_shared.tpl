{{- /* What several templates say in the same words. */}}

{{- define "rdmascope.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "rdmascope.coordinator" -}}
rdmascope-coordinator.{{ .Release.Namespace }}.svc
{{- end }}

{{- /* Nodes that nobody has tested yet must let in what tests them. */}}
{{- define "rdmascope.taint" -}}
rdmascope.io/not-checked
{{- end }}

{{- define "rdmascope.scheme" -}}
{{ ternary "HTTPS" "HTTP" .Values.tls }}
{{- end }}

{{- define "rdmascope.credentials" -}}
{{ ternary "--tls=/etc/rdmascope/tls" "--token-file=/etc/rdmascope/token" .Values.tls }}
{{- end }}

{{- /* The volume of a Secret with a certificate, or of the token, readable by the group 65532 of fsGroup. */}}
{{- define "rdmascope.secret" -}}
- name: credentials
  secret:
    secretName: {{ .secret }}
    # 0440: the group is fsGroup above. Written in decimal, for YAML versions disagree about octal.
    defaultMode: 288
{{- end }}
