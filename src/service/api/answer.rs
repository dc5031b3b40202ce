//! Errors as the API says them.

use axum::Json;
use axum::body::to_bytes;
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::service::command::AskError;

/// The body of an answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What is wrong, in words.
    pub error: String,
}

/// An answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    message: String,
}

impl ApiError {
    /// An error with its HTTP status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
    /// 400.
    pub fn bad(message: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message.to_string())
    }
    /// 404.
    pub fn missing(message: impl ToString) -> Self {
        Self::new(StatusCode::NOT_FOUND, message.to_string())
    }
    /// 500: our side failed.
    pub fn failed(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, crate::service::chain(error))
    }
}

/// How a question ended, as the process that answers it says.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Answered {
    /// HTTP status; after 200 the answer follows.
    pub status: u16,
    /// What is wrong, in words, after any other.
    pub error: String,
}

impl From<ApiError> for Answered {
    fn from(error: ApiError) -> Self {
        Self { status: error.status.as_u16(), error: error.message }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorBody { error: self.message })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// An error in words, as those are that refuse a query or a body before anybody reads it, in the form of all others.
pub async fn in_json(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE);
    let is_text = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !is_text || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let words = to_bytes(response.into_body(), MOST_WORDS).await.unwrap_or_default();
    ApiError::new(status, String::from_utf8_lossy(&words).trim().to_string()).into_response()
}

/// Bytes of an error in words.
const MOST_WORDS: usize = 1 << 16;

impl From<AskError> for ApiError {
    fn from(error: AskError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}
