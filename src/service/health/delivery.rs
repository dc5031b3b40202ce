//! The troubles of deliveries: a key of their own in `health.json` for each that the service begins.

use std::collections::BTreeMap;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::Trouble;
use crate::service::kind::DELIVERIES;

type Troubles = BTreeMap<String, Option<Trouble>>;

fn names() -> impl Iterator<Item = &'static str> {
    DELIVERIES.iter().filter(|row| row.begun.is_some()).map(|row| row.name)
}

/// At the start.
pub(super) fn nothing_wrong() -> Troubles {
    names().map(|name| (name.to_string(), None)).collect()
}

/// What is there under the names of deliveries; all else may be of another version.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Troubles, D::Error> {
    let mut found = Map::deserialize(from)?;
    let trouble = |value: Value| serde_json::from_value(value).map_err(serde::de::Error::custom);
    names().map(|name| Ok((name.to_string(), trouble(found.remove(name).unwrap_or_default())?))).collect()
}

/// For who asks what there may be.
pub(super) fn schema(generator: &mut SchemaGenerator) -> Schema {
    let trouble = generator.subschema_for::<Option<Trouble>>();
    let properties: Map<String, Value> =
        names().map(|name| (name.to_string(), trouble.clone().into())).collect();
    json_schema!({ "type": "object", "properties": properties })
}
