//! One folder: a captured machine, and what must and must not be found on it.

use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// What `expect.yaml` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    case: String,
    kind: String,
    source: String,
    applicable: bool,
    why: Option<String>,
    #[serde(default)]
    in_container: bool,
    #[serde(default)]
    must: Vec<Wanted>,
    #[serde(default)]
    must_not: Vec<Wanted>,
}

/// A finding, or several: `*` stands for any letters in id, status and subject.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) subject: String,
    /// Must be in its summary, cause, next step or evidence.
    pub(crate) text: Option<String>,
}

/// A folder.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) id: String,
    /// Kind of the fault, or of the trap.
    pub(crate) kind: String,
    pub(crate) folder: PathBuf,
    pub(crate) judged: Judged,
}

/// Whether one machine can be judged at all.
#[derive(Debug)]
pub(crate) enum Judged {
    /// It cannot, for this reason.
    NotHere(String),
    Here {
        in_container: bool,
        must: Vec<Wanted>,
        must_not: Vec<Wanted>,
    },
}

impl Case {
    /// Every folder, in the order of their names; one that cannot be used is an error, for it would test nothing.
    pub(crate) fn all(folder: &Path) -> Result<Vec<Self>, String> {
        let said = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut folders = Vec::new();
        for entry in fs::read_dir(folder).map_err(said)? {
            folders.push(entry.map_err(said)?.path());
        }
        folders.retain(|path| path.is_dir());
        folders.sort();
        if folders.is_empty() {
            return Err(format!("{} has no folders", folder.display()));
        }
        folders.into_iter().map(Self::read).collect()
    }

    fn read(folder: PathBuf) -> Result<Self, String> {
        let file = folder.join("expect.yaml");
        let said = |what: &dyn std::fmt::Display| format!("{}: {what}", file.display());
        let text = fs::read_to_string(&file).map_err(|error| said(&error))?;
        let form: Form = serde_yaml::from_str(&text).map_err(|error| said(&error))?;
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.split('-').next() != Some(form.case.as_str()) {
            return Err(said(&format!("the folder's name does not begin with `{}-`", form.case)));
        }
        if form.source.is_empty() || form.kind.is_empty() {
            return Err(said(&"`source` and `kind` must say something"));
        }
        let judged = match (form.applicable, form.why) {
            (false, Some(why)) if form.must.is_empty() && form.must_not.is_empty() => Judged::NotHere(why),
            (true, None) if !(form.must.is_empty() && form.must_not.is_empty()) => {
                Judged::Here { in_container: form.in_container, must: form.must, must_not: form.must_not }
            }
            (false, _) => return Err(said(&"not applicable: give `why`, and neither `must` nor `must_not`")),
            (true, _) => return Err(said(&"applicable: give `must` or `must_not`, and no `why`")),
        };
        Ok(Self { id: form.case, kind: form.kind, folder, judged })
    }

    /// A file of the folder, where it is there.
    pub(crate) fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(name)).filter(|path| path.exists())
    }
}
