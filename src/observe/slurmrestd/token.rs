//! What a token says of itself.

use chrono::{DateTime, Utc};
use serde::Deserialize;

/// When a JWT expires (RFC 7519, `exp`), for messages only: nobody checks its signature here. `None`
/// if it never does, or is no JWT.
pub(super) fn expiry(token: &str) -> Option<DateTime<Utc>> {
    #[derive(Deserialize)]
    struct Claims {
        exp: serde_json::Number,
    }
    let claims = base64url(token.split('.').nth(1)?)?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    DateTime::from_timestamp(claims.exp.as_f64()?.floor() as i64, 0)
}

/// RFC 4648, section 5, without padding; `None` if it is not that.
fn base64url(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bits, mut kept) = (0u32, 0);
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for letter in text.bytes() {
        let value = ALPHABET.iter().position(|l| *l == letter)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        kept += 6;
        if kept >= 8 {
            kept -= 8;
            bytes.push((bits >> kept & 0xff) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expiry_of_a_token_is_read_from_it() {
        // {"alg":"HS256","typ":"JWT"} . {"exp":1700000000,"iat":1699998200,"sun":"slurm"} . a signature
        let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
                     eyJleHAiOjE3MDAwMDAwMDAsImlhdCI6MTY5OTk5ODIwMCwic3VuIjoic2x1cm0ifQ.c2lnbmF0dXJl";
        assert_eq!(expiry(token).unwrap().to_rfc3339(), "2023-11-14T22:13:20+00:00");
        assert_eq!(base64url("TWFu").unwrap(), b"Man");
        // {"sun":"slurm"}: never; then what is no JWT.
        for other in ["e30.eyJzdW4iOiJzbHVybSJ9.x", "", "a.b", "a.!!.c", "not a token"] {
            assert_eq!(expiry(other), None, "{other}");
        }
    }
}
