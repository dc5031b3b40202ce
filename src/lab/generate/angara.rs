//! Direct tori: `angara:4x2x2x2[,line=XK][,failed=1.0.0.0/0.0.0.1+X][,faults=1%,seed=7]`, and `desmos` for the
//! sizes of that system of the paper.

use super::spec::SpecError;
use crate::model::rng::Rng;
use crate::model::{Coords, Direction, Torus, TorusBuilder};

/// Whether the text is the spec of a direct torus.
pub fn is_angara(text: &str) -> bool {
    text.starts_with("angara:") || text.split(',').next() == Some("desmos")
}

/// Builds the torus of a spec. `line` names dimensions without a wrap-around cable; `failed` lists
/// nodes and links separated by `/`; `faults` cuts that share of the cables at random, seeded.
///
/// # Errors
/// [`SpecError::Syntax`] with the spec as typed.
pub fn torus(spec: &str) -> Result<Torus, SpecError> {
    let syntax = |reason: String| SpecError::Syntax { spec: spec.to_string(), reason };
    match spec.strip_prefix("desmos") {
        Some(options) => build(&format!("4x2x2x2{options}")).map_err(syntax),
        None => build(spec.strip_prefix("angara:").unwrap_or(spec)).map_err(syntax),
    }
}

fn build(rest: &str) -> Result<Torus, String> {
    let mut words = rest.split(',');
    let sizes: Option<Vec<usize>> = words.next().and_then(|w| w.split('x').map(|s| s.parse().ok()).collect());
    let sizes = sizes.ok_or("wants sizes such as 4x2x2x2")?;
    let mut builder = TorusBuilder::new(&sizes).map_err(|e| e.to_string())?;
    let (mut failed, mut faults, mut seed) = ("", 0.0, 1);
    for word in words {
        match word.split_once('=') {
            Some(("line", letters)) => lines(&mut builder, letters, sizes.len())?,
            Some(("failed", list)) => failed = list,
            Some(("faults", share)) => faults = percent(share)?,
            Some(("seed", text)) => {
                seed = text.parse().map_err(|_| format!("seed={text} is not a number"))?
            }
            _ => return Err(format!("unknown option {word:?}")),
        }
    }
    for word in failed.split('/').filter(|w| !w.is_empty()) {
        fail(&mut builder, word).map_err(|e| e.to_string())?;
    }
    let mut cables = builder.links();
    Rng::new(seed).shuffle(&mut cables);
    let count = (faults * cables.len() as f64).round() as usize;
    for (at, direction) in cables.into_iter().take(count) {
        builder.fail_link(at, direction).map_err(|e| e.to_string())?;
    }
    builder.build().map_err(|e| e.to_string())
}

fn lines(builder: &mut TorusBuilder, letters: &str, dims: usize) -> Result<(), String> {
    for letter in letters.chars() {
        let direction: Result<Direction, _> = format!("+{letter}").parse();
        let direction = direction.ok().filter(|d| d.dim() < dims);
        builder
            .line(direction.ok_or_else(|| format!("line={letters}: there is no dimension {letter}"))?.dim());
    }
    Ok(())
}

fn percent(text: &str) -> Result<f64, String> {
    let number =
        text.strip_suffix('%').and_then(|n| n.parse::<f64>().ok()).filter(|n| (0.0..=100.0).contains(n));
    number.map(|n| n / 100.0).ok_or_else(|| format!("faults={text} is not a percentage"))
}

/// Fails `1.0.0.0` (a node) or `0.0.0.1+X` (a link).
///
/// # Errors
/// Words that are not understood, nodes outside, links that are not there.
pub fn fail(builder: &mut TorusBuilder, word: &str) -> Result<(), crate::model::TorusError> {
    match word.find(['+', '-']) {
        None => builder.fail_node(word.parse()?),
        Some(sign) => builder.fail_link(word[..sign].parse::<Coords>()?, word[sign..].parse()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_say_what_is_wrong() {
        let good = torus("angara:4x4,line=Y,failed=1.1/0.0+X,faults=10%,seed=3").unwrap();
        assert!(!good.is_ring(1) && good.is_ring(0));
        assert_eq!(good.healthy_nodes().len(), 15);
        for (spec, wanted) in [
            ("angara:4x1", "size 1"),
            ("angara:2x2x2x2x2", "5 dimensions"),
            ("angara:4y4", "wants sizes"),
            ("angara:4x4,failed=4.0", "outside the torus 4x4"),
            ("angara:4x2,failed=0.1+Y", "no link 0.1+Y"),
            ("angara:4x4,failed=0.0+W", "not one of +X"),
            ("angara:4x4,line=Z", "no dimension Z"),
            ("angara:4x4,faults=x", "not a percentage"),
            ("angara:4x4,nodes=3", "unknown option"),
        ] {
            let message = torus(spec).unwrap_err().to_string();
            assert!(message.contains(wanted) && message.contains(spec), "{message}");
        }
    }
}
