//! `GET /v1/openapi.json`: what may be asked of the service, for programs. Schemas are those of the types that are
//! sent.

use std::sync::OnceLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::answer::ErrorBody;
use super::routes::{ContentKind, Operation, Routes, Who};

/// Where it is served.
pub const PATH: &str = "/v1/openapi.json";

const ABOUT: &str = "JSON over a unix socket (state directory, api.sock), or over TCP with a token where the settings \
                     say so. Keys may be added, none is renamed. Errors are {\"error\": TEXT}.";

/// The path of the document itself.
pub(super) fn read<S: Clone + Send + Sync + 'static>(several: bool) -> Routes<S> {
    let told = Operation::new(PATH, "This document").answers::<Map<String, Value>>();
    let text = move || async move { answer(several) };
    Routes::new().get(told, text)
}

/// The document, made once: that takes as long as a thousand other answers.
fn answer(several: bool) -> Response {
    static MADE: [OnceLock<Bytes>; 2] = [const { OnceLock::new() }; 2];
    let made = MADE[usize::from(several)].get_or_init(|| document(several).to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], made.clone()).into_response()
}

/// The document: of a service of one fabric, or of several. The same bytes each time.
pub fn document(several: bool) -> Value {
    let mut shapes = Shapes::new();
    let one = super::told();
    let mut paths = Map::new();
    if several {
        for operation in super::several::told() {
            shapes.add(&mut paths, operation.path, &operation);
        }
        for operation in &one {
            let path = format!("/fabrics/{{fabric}}{}", operation.path);
            shapes.add(&mut paths, &path, operation);
        }
    } else {
        for operation in &one {
            shapes.add(&mut paths, operation.path, operation);
        }
    }
    let error = shapes.sent.subschema_for::<ErrorBody>();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "sarouter", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "The service itself" }],
        "paths": paths,
        "components": {
            "schemas": shapes.sent.take_definitions(true),
            "responses": { "Error": {
                "description": "What is wrong, in words",
                "content": { "application/json": { "schema": error } },
            } },
            "securitySchemes": { "token": {
                "type": "http", "scheme": "bearer",
                "description": "Over TCP: a line of api.token_file. On the unix socket the kernel says who asks.",
            } },
        },
    })
}

/// Where types become schemas.
struct Shapes {
    /// What the service sends: by name, below `components`.
    sent: SchemaGenerator,
    /// What it reads: where it stands. A key that may be left out is always sent.
    read: SchemaGenerator,
}

impl Shapes {
    fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        let mut read = settings().for_deserialize();
        read.inline_subschemas = true;
        Self { sent: settings().for_serialize().into_generator(), read: read.into_generator() }
    }

    fn add(&mut self, paths: &mut Map<String, Value>, path: &str, operation: &Operation) {
        let of_path = paths.entry(path).or_insert_with(|| json!({}));
        of_path[operation.method] = self.operation(path, operation);
    }

    fn operation(&mut self, path: &str, operation: &Operation) -> Value {
        let (who, access) = match operation.who {
            Who::Everybody => ("Everybody", "everybody"),
            Who::Readers => ("Those who may ask (readers)", "reader"),
            Who::Administrators => ("Those who may change something (administrators)", "administrator"),
        };
        let mut told = json!({
            "operationId": id(path, operation.method),
            "summary": operation.summary,
            "description": format!("{who}."),
            "x-access": access,
            "responses": self.responses(operation),
        });
        let parameters: Vec<Value> = in_path(path).chain(self.in_query(operation)).collect();
        if !parameters.is_empty() {
            told["parameters"] = parameters.into();
        }
        if let Some(body) = operation.body {
            let schema = body(&mut self.read);
            told["requestBody"] =
                json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        }
        if operation.who != Who::Everybody {
            told["security"] = json!([{}, { "token": [] }]);
        }
        told
    }

    fn responses(&mut self, operation: &Operation) -> Value {
        let mut responses = Map::new();
        let content = match &operation.answer {
            ContentKind::Other(media) => json!({ *media: { "schema": { "type": "string" } } }),
            ContentKind::Json(shapes) => {
                let mut all: Vec<Schema> = shapes.iter().map(|shape| shape(&mut self.sent)).collect();
                let schema = match (all.pop(), all.is_empty()) {
                    (Some(one), true) => one.into(),
                    (last, _) => json!({ "anyOf": all.into_iter().chain(last).collect::<Vec<_>>() }),
                };
                json!({ "application/json": { "schema": schema } })
            }
        };
        responses.insert("200".into(), json!({ "description": operation.summary, "content": content }));
        let error = || json!({ "$ref": "#/components/responses/Error" });
        let of_access: &[u16] = match operation.who {
            Who::Everybody => &[403],
            Who::Readers | Who::Administrators => &[401, 403, 503, 504],
        };
        let mut errors: Vec<u16> = operation.errors.iter().chain(of_access).copied().collect();
        errors.sort_unstable();
        errors.dedup();
        responses.extend(errors.into_iter().map(|status| (status.to_string(), error())));
        responses.insert("default".into(), error());
        responses.into()
    }

    /// A parameter for each key of the type.
    fn in_query(&mut self, operation: &Operation) -> Vec<Value> {
        let Some(query) = operation.query else { return Vec::new() };
        let schema = query(&mut self.read).to_value();
        let keys = schema["properties"].as_object().cloned().unwrap_or_default();
        let parameter = |(name, mut schema): (String, Value)| {
            let words = schema.as_object_mut().and_then(|of| of.remove("description"));
            json!({ "name": name, "in": "query", "description": words, "schema": schema })
        };
        keys.into_iter().map(parameter).collect()
    }
}

/// What stands at the places of a path.
fn in_path(path: &str) -> impl Iterator<Item = Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| {
        let words = match name {
            "fabric" => "Name of a fabric of the settings",
            "epoch" => "A number, or `current`",
            "guid" => "GUID of a switch, hexadecimal",
            "node" => "Slurm's name of a node",
            "id" | "job" => "Slurm's id of a job",
            "engine" => "Name of an engine, as `/v1/engines` lists them",
            _ => "Name of a file of the epoch",
        };
        let schema = json!({ "type": "string" });
        json!({ "name": name, "in": "path", "required": true, "description": words, "schema": schema })
    })
}

/// `get_v1_epochs_epoch`.
fn id(path: &str, method: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(method.to_string(), |id, word| format!("{id}_{word}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The paths that a router has, as it prints itself.
    fn routed(router: &impl std::fmt::Debug) -> BTreeSet<String> {
        let text = format!("{router:?}");
        let paths =
            text.split("paths: {").nth(1).and_then(|rest| rest.split('}').next().map(|_| rest)).unwrap();
        let end = paths.find("} }").unwrap_or(paths.len());
        let quoted = paths[..end].split('"').skip(1).step_by(2);
        quoted.map(String::from).collect()
    }

    #[test]
    fn each_path_that_is_served_is_told_and_no_other() {
        for several in [false, true] {
            let document = document(several);
            let told: BTreeSet<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
            let below = |path: &String| !path.starts_with("/fabrics/");
            let told: BTreeSet<String> = told.into_iter().filter(below).collect();
            let served = if several {
                routed(&super::super::several::paths(std::time::Duration::ZERO).router)
            } else {
                routed(&super::super::paths(std::time::Duration::ZERO).router)
            };
            assert!(served.len() >= 8, "{served:?}");
            assert_eq!(told, served);
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_the_document_is_the_same_each_time() {
        for several in [false, true] {
            let written = document(several).to_string();
            assert_eq!(written, document(several).to_string());
            let known = document(several);
            for to in written.split("\"$ref\":\"#").skip(1) {
                let pointer = to.split('"').next().unwrap();
                assert!(known.pointer(pointer).is_some(), "{pointer}");
            }
            assert!(!written.contains("$defs"));
        }
    }

    #[test]
    fn places_of_paths_are_called_what_they_are() {
        let document = document(false);
        let words = |path: &str, method: &str, at: usize| {
            document["paths"][path][method]["parameters"][at]["description"].as_str().unwrap().to_string()
        };
        assert!(words("/v1/engines/{engine}", "post", 0).starts_with("Name of an engine"));
        assert_eq!(words("/v1/epochs/{epoch}/files/{name}", "get", 1), "Name of a file of the epoch");
    }

    #[test]
    fn ids_of_operations_are_different() {
        for several in [false, true] {
            let document = document(several);
            let operations = document["paths"].as_object().unwrap().values();
            let ids: Vec<String> = operations
                .flat_map(|of| of.as_object().unwrap().values())
                .map(|operation| operation["operationId"].to_string())
                .collect();
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
        }
    }
}
