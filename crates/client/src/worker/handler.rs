//! Handlers of all kinds, as the worker calls them.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::outcome::Failure;

/// What a handler is at work on.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// A call that is about to begin.
pub(super) struct Prepared {
    /// Messages whose payload does not parse, by their place in the call, and why.
    pub(super) flaws: Vec<(usize, String)>,
    /// The call on the others; none if there are no others.
    pub(super) work: Option<Work>,
}

/// A handler, whatever its payload is.
pub(super) trait Handler: Send + Sync {
    fn prepare(&self, deliveries: &[Context]) -> Prepared;
}

/// One message with its payload, in a batch.
#[derive(Clone, Debug)]
pub struct Delivery<T> {
    /// What was sent.
    pub payload: T,
    /// Everything else about it.
    pub context: Context,
}

fn parse<T: DeserializeOwned>(context: &Context) -> Result<T, String> {
    serde_json::from_slice(context.payload())
        .map_err(|error| format!("the payload does not parse as {}: {error}", short_name::<T>()))
}

/// The type's name without the modules that it is in.
fn short_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    let end = name.find('<').unwrap_or(name.len());
    name[..end].rfind("::").map_or(name, |at| &name[at + 2..])
}

/// One message at a time, with its payload as JSON.
pub(super) struct Typed<T, F>(pub(super) F, pub(super) std::marker::PhantomData<fn() -> T>);

impl<T, F, Fut> Handler for Typed<T, F>
where
    T: DeserializeOwned + Send + 'static,
    F: Fn(T, Context) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send + 'static,
{
    fn prepare(&self, deliveries: &[Context]) -> Prepared {
        let Some(context) = deliveries.first() else { return Prepared { flaws: Vec::new(), work: None } };
        match parse(context) {
            Ok(payload) => {
                Prepared { flaws: Vec::new(), work: Some(Box::pin((self.0)(payload, context.clone()))) }
            }
            Err(flaw) => Prepared { flaws: vec![(0, flaw)], work: None },
        }
    }
}

/// One message at a time, with its payload as it came.
pub(super) struct Raw<F>(pub(super) F);

impl<F, Fut> Handler for Raw<F>
where
    F: Fn(Bytes, Context) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send + 'static,
{
    fn prepare(&self, deliveries: &[Context]) -> Prepared {
        let work = deliveries.first().map(|context| {
            let work: Work = Box::pin((self.0)(context.payload().clone(), context.clone()));
            work
        });
        Prepared { flaws: Vec::new(), work }
    }
}

/// Several messages at a time.
pub(super) struct Batched<T, F>(pub(super) F, pub(super) std::marker::PhantomData<fn() -> T>);

impl<T, F, Fut> Handler for Batched<T, F>
where
    T: DeserializeOwned + Send + 'static,
    F: Fn(Vec<Delivery<T>>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send + 'static,
{
    fn prepare(&self, deliveries: &[Context]) -> Prepared {
        let (mut batch, mut flaws) = (Vec::with_capacity(deliveries.len()), Vec::new());
        for (place, context) in deliveries.iter().enumerate() {
            match parse(context) {
                Ok(payload) => batch.push(Delivery { payload, context: context.clone() }),
                Err(flaw) => flaws.push((place, flaw)),
            }
        }
        let work = (!batch.is_empty()).then(|| {
            let work: Work = Box::pin((self.0)(batch));
            work
        });
        Prepared { flaws, work }
    }
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn types_are_named_as_people_write_them() {
        assert_eq!(short_name::<u32>(), "u32");
        assert_eq!(short_name::<String>(), "String");
        assert_eq!(short_name::<Vec<String>>(), "Vec<alloc::string::String>");
    }
}
