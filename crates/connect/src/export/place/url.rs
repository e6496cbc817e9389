//! The URL of a place.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::export::error::ExportError;

/// Where files go: a folder (`file:///…` or a path), or an object store (`s3://bucket/prefix`, `gs://…`, `az://…`).
/// Credentials come from the usual environment variables of each store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceUrl {
    pub(super) kind: Kind,
    /// The bucket or container, and the prefix behind it, without slashes around it.
    pub(super) bucket: String,
    pub(super) prefix: String,
    /// Where an S3-compatible store is.
    pub(super) endpoint: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Folder(PathBuf),
    S3,
    Google,
    Azure,
}

impl PlaceUrl {
    /// Reads a URL or a path. `endpoint` is the URL of an S3-compatible store, for `s3://` alone.
    ///
    /// # Errors
    /// If it names no place.
    pub fn parse(text: &str, endpoint: Option<&str>) -> Result<Self, ExportError> {
        let invalid = |why: String| Err(ExportError::Invalid(why));
        let (kind, rest) = match text.split_once("://") {
            None => return Self::folder_at(Path::new(text), endpoint),
            Some(("file", path)) if path.starts_with('/') => {
                return Self::folder_at(Path::new(path), endpoint);
            }
            Some(("s3", rest)) => (Kind::S3, rest),
            Some(("gs", rest)) => (Kind::Google, rest),
            Some(("az", rest)) => (Kind::Azure, rest),
            Some(_) => {
                return invalid(format!(
                    "{text}: no place for files; write a path, file:///path, s3://bucket/prefix, gs://bucket/prefix or \
                     az://container/prefix"
                ));
            }
        };
        if endpoint.is_some() && kind != Kind::S3 {
            return invalid("an endpoint is for s3:// alone".to_owned());
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        if bucket.is_empty() || prefix.split('/').any(|part| matches!(part, "." | ".." | super::STAGING)) {
            return invalid(format!("{text}: names no bucket, or a prefix that cannot be one"));
        }
        let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
        Ok(Self { kind, bucket, prefix, endpoint: endpoint.map(str::to_owned) })
    }

    fn folder_at(path: &Path, endpoint: Option<&str>) -> Result<Self, ExportError> {
        if endpoint.is_some() {
            return Err(ExportError::Invalid("an endpoint is for s3:// alone".to_owned()));
        }
        if path.as_os_str().is_empty() {
            return Err(ExportError::Invalid("the place has no name".to_owned()));
        }
        // Its name is part of the export's identity, so it does not depend on where the process was started.
        let folder = std::path::absolute(path)?;
        Ok(Self { kind: Kind::Folder(folder), bucket: String::new(), prefix: String::new(), endpoint: None })
    }

    pub(super) fn folder(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Folder(folder) => Some(folder),
            Kind::S3 | Kind::Google | Kind::Azure => None,
        }
    }
}

impl fmt::Display for PlaceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match &self.kind {
            Kind::Folder(folder) => {
                let path = folder.to_string_lossy();
                return write!(f, "file://{}", path.trim_end_matches('/'));
            }
            Kind::S3 => "s3",
            Kind::Google => "gs",
            Kind::Azure => "az",
        };
        write!(f, "{scheme}://{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_by_url_or_path() {
        for (text, shown) in [
            ("/tmp/out/", "file:///tmp/out"),
            ("file:///tmp/out", "file:///tmp/out"),
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/a/b/", "s3://bucket/a/b"),
            ("gs://bucket/a", "gs://bucket/a"),
            ("az://container/a", "az://container/a"),
        ] {
            assert_eq!(PlaceUrl::parse(text, None).unwrap().to_string(), shown);
        }
        let here = PlaceUrl::parse("out", None).unwrap().to_string();
        assert!(here.starts_with("file:///") && here.ends_with("/out"), "{here}");
    }

    #[test]
    fn what_names_no_place_is_refused() {
        for text in
            ["", "http://host/a", "file://host/a", "s3://", "s3:///a", "s3://b/../c", "s3://b/.staging"]
        {
            assert!(PlaceUrl::parse(text, None).is_err(), "{text}");
        }
        assert!(PlaceUrl::parse("gs://b", Some("http://127.0.0.1:1")).is_err());
        assert!(PlaceUrl::parse("/tmp", Some("http://127.0.0.1:1")).is_err());
    }
}
