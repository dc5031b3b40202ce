//! Paths with what is told of them: nothing can be served that `GET /v1/openapi.json` does not tell.

use axum::Router;
use axum::handler::Handler;
use axum::middleware;
use axum::routing::{get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::peer;

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Files of the page, which hold no secret.
    Everybody,
    /// Those who may ask.
    Readers,
    /// Those who may change something.
    Administrators,
}

/// A type, as the schema of its JSON.
type Shape = fn(&mut SchemaGenerator) -> Schema;

fn shape<T: JsonSchema>(from: &mut SchemaGenerator) -> Schema {
    from.subschema_for::<T>()
}

/// What a good answer is.
#[derive(Debug, Clone)]
pub enum ContentKind {
    /// JSON of one of these types.
    Json(Vec<Shape>),
    /// Something else, by its media type.
    Other(&'static str),
}

/// One path and method.
#[derive(Debug, Clone)]
pub struct Operation {
    /// With `{name}` where something stands.
    pub path: &'static str,
    /// `get` or `post`.
    pub method: &'static str,
    /// A sentence.
    pub summary: &'static str,
    /// Who may.
    pub who: Who,
    /// What may stand after `?`: an object whose keys are the parameters.
    pub query: Option<Shape>,
    /// What is sent.
    pub body: Option<Shape>,
    /// What comes back.
    pub answer: ContentKind,
    /// Status of errors that are the question's own.
    pub errors: &'static [u16],
}

impl Operation {
    /// A path, and what its answer is in a sentence; the method is that of [`Routes::get`] or [`Routes::post`].
    pub fn new(path: &'static str, summary: &'static str) -> Self {
        Self {
            path,
            method: "",
            summary,
            who: Who::Everybody,
            query: None,
            body: None,
            answer: ContentKind::Json(Vec::new()),
            errors: &[],
        }
    }

    /// The answer may be this.
    #[must_use]
    pub fn answers<T: JsonSchema>(mut self) -> Self {
        if let ContentKind::Json(shapes) = &mut self.answer {
            shapes.push(shape::<T>);
        }
        self
    }

    /// The answer is no JSON.
    #[must_use]
    pub fn answers_as(self, media: &'static str) -> Self {
        Self { answer: ContentKind::Other(media), ..self }
    }

    /// What may stand after `?`.
    #[must_use]
    pub fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(shape::<T>), ..self }
    }

    /// What is sent.
    #[must_use]
    pub fn takes<T: JsonSchema>(self) -> Self {
        Self { body: Some(shape::<T>), ..self }
    }

    /// Errors of the question itself.
    #[must_use]
    pub fn refuses(self, errors: &'static [u16]) -> Self {
        Self { errors, ..self }
    }
}

/// Handlers with what is told of them.
pub struct Routes<S> {
    /// For the server.
    pub router: Router<S>,
    /// For the document, in the order of definition.
    pub told: Vec<Operation>,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self { router: Router::new(), told: Vec::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that asks.
    #[must_use]
    pub fn get<T: 'static>(mut self, told: Operation, handler: impl Handler<T, S>) -> Self {
        self.router = self.router.route(told.path, get(handler));
        self.told.push(Operation { method: "get", ..told });
        self
    }

    /// One that sends something.
    #[must_use]
    pub fn post<T: 'static>(mut self, told: Operation, handler: impl Handler<T, S>) -> Self {
        self.router = self.router.route(told.path, post(handler));
        self.told.push(Operation { method: "post", ..told });
        self
    }

    /// These and others.
    #[must_use]
    pub fn merge(mut self, others: Self) -> Self {
        self.told.extend(others.told);
        Self { router: self.router.merge(others.router), told: self.told }
    }

    /// For those who may ask.
    #[must_use]
    pub fn for_readers(self) -> Self {
        let guard = middleware::from_fn(peer::readers_only);
        self.wrapped(|router| router.route_layer(guard)).told_to(Who::Readers)
    }

    /// For those who may change something.
    #[must_use]
    pub fn for_administrators(self) -> Self {
        let guard = middleware::from_fn(peer::writers_only);
        self.wrapped(|router| router.route_layer(guard)).told_to(Who::Administrators)
    }

    fn told_to(mut self, who: Who) -> Self {
        self.told.iter_mut().for_each(|operation| operation.who = who);
        self
    }

    /// Puts something around the handlers.
    #[must_use]
    pub fn wrapped(self, wrap: impl FnOnce(Router<S>) -> Router<S>) -> Self {
        Self { router: wrap(self.router), told: self.told }
    }
}
