//! An object store. A part is put in one piece, on the condition that its name is free.

use std::error::Error as StdError;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};
use tokio::task::spawn_blocking;

use super::http::Connector;
use super::url::{Kind, PlaceUrl};
use crate::export::error::ExportError;

/// A part is read from the disk in pieces of this size.
const CHUNK_BYTES: usize = 1 << 20;
/// Where the environment says that an S3-compatible store is.
const ENDPOINT_VARIABLES: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];

pub(super) struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    url: String,
}

impl Bucket {
    pub(super) fn open(url: &PlaceUrl) -> Result<Self, ExportError> {
        let store = built(url).map_err(|error| failed(&url.to_string(), &error))?;
        Ok(Self { store, prefix: url.prefix.clone(), url: url.to_string() })
    }

    /// `false` if the name was there before.
    pub(super) async fn publish(&self, file: File, name: &str) -> Result<bool, ExportError> {
        let payload = spawn_blocking(move || chunks(file)).await.map_err(std::io::Error::other)??;
        self.create(name, payload).await
    }

    /// `false` if the name was there before.
    pub(super) async fn create(&self, name: &str, payload: PutPayload) -> Result<bool, ExportError> {
        match self.store.put_opts(&self.path(name), payload, PutMode::Create.into()).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.failed(&error)),
        }
    }

    pub(super) async fn read(&self, name: &str) -> Result<Option<Bytes>, ExportError> {
        let found = match self.store.get(&self.path(name)).await {
            Ok(found) => found.bytes().await,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => Err(error),
        };
        found.map(Some).map_err(|error| self.failed(&error))
    }

    pub(super) async fn remove(&self, name: &str) -> Result<u64, ExportError> {
        let path = self.path(name);
        let mut removed = 0;
        let mut under = self.store.list(Some(&path));
        while let Some(found) = under.try_next().await.map_err(|error| self.failed(&error))? {
            removed += self.remove_one(&found.location).await?;
        }
        // A list holds what is under a name, and not what has that name itself.
        if removed == 0 { self.remove_one(&path).await } else { Ok(removed) }
    }

    pub(super) async fn discard(&self, name: &str) -> Result<(), ExportError> {
        self.remove_one(&self.path(name)).await.map(drop)
    }

    async fn remove_one(&self, path: &Path) -> Result<u64, ExportError> {
        match self.store.delete(path).await {
            Ok(()) => Ok(1),
            Err(Error::NotFound { .. }) => Ok(0),
            Err(error) => Err(self.failed(&error)),
        }
    }

    pub(super) async fn list(&self, name: &str) -> Result<Vec<String>, ExportError> {
        let found = self.store.list_with_delimiter(Some(&self.path(name))).await;
        let found = found.map_err(|error| self.failed(&error))?;
        let files = found.objects.into_iter().map(|object| object.location);
        let paths = files.chain(found.common_prefixes);
        Ok(paths.filter_map(|path| path.filename().map(str::to_owned)).collect())
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.prefix))
    }

    fn failed(&self, error: &Error) -> ExportError {
        failed(&self.url, error)
    }
}

fn failed(url: &str, error: &Error) -> ExportError {
    let advice = match error {
        _ if driftq_tls::is_untrusted(error) => driftq_tls::ADVICE,
        Error::NotFound { .. } => "is there such a bucket, and may it be listed?",
        Error::Unauthenticated { .. } | Error::PermissionDenied { .. } => {
            "set the credentials of the store in its usual environment variables"
        }
        _ => "",
    };
    let mut why = error.to_string();
    // The innermost cause says most, and not every error on the way repeats it.
    let mut behind = StdError::source(error);
    while let Some(cause) = behind {
        let text = cause.to_string();
        if !why.contains(&text) {
            why = format!("{why}: {text}");
        }
        behind = cause.source();
    }
    if !advice.is_empty() {
        why = format!("{why}; {advice}");
    }
    ExportError::Place { place: url.to_owned(), why }
}

fn built(url: &PlaceUrl) -> Result<Arc<dyn ObjectStore>, Error> {
    Ok(match &url.kind {
        Kind::Google => {
            let store = GoogleCloudStorageBuilder::from_env().with_bucket_name(&url.bucket);
            Arc::new(store.with_http_connector(Connector).build()?)
        }
        Kind::Azure => {
            let store = MicrosoftAzureBuilder::from_env().with_container_name(&url.bucket);
            Arc::new(store.with_http_connector(Connector).build()?)
        }
        Kind::S3 | Kind::Folder(_) => {
            let mut store = AmazonS3Builder::from_env().with_bucket_name(&url.bucket);
            let named = || ENDPOINT_VARIABLES.iter().find_map(|name| std::env::var(name).ok());
            if let Some(endpoint) = url.endpoint.clone().or_else(named) {
                // A caller that writes http:// means it.
                store = store.with_allow_http(endpoint.starts_with("http://")).with_endpoint(endpoint);
            }
            Arc::new(store.with_http_connector(Connector).build()?)
        }
    })
}

fn chunks(mut file: File) -> Result<PutPayload, ExportError> {
    file.rewind()?;
    let mut chunks: Vec<Bytes> = Vec::new();
    loop {
        let mut chunk = BytesMut::zeroed(CHUNK_BYTES);
        let mut filled = 0;
        while filled < CHUNK_BYTES {
            match file.read(&mut chunk[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        chunk.truncate(filled);
        if filled == 0 {
            return Ok(chunks.into_iter().collect());
        }
        chunks.push(chunk.freeze());
    }
}
