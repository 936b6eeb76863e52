//! Which versions of the contract this host runs, and how a component says which one it was built for.

use crate::cause::LoadError;

/// The contract's package.
const PACKAGE: &str = "assignor:strategy/";
/// The interfaces that a strategy may import.
const IMPORTS: [&str; 7] = ["types", "context", "log", "cluster", "lag", "built-in", "control"];
/// What this host runs: 0.1, up to this patch.
const SUPPORTED: (u64, u64, u64) = (0, 1, 0);

/// Checks imports and exports by their names, before anything is compiled, and returns the contract's version.
///
/// An older patch is served by a newer host; a newer patch, and any other minor, is refused in words.
pub(super) fn check(imports: &[String], exports: &[String]) -> Result<String, LoadError> {
    let mut strategy = None;
    for name in exports {
        if let Some((interface, version)) = contract_name(name) {
            supported(version)?;
            if interface == "strategy" {
                strategy = Some(version);
            }
        }
    }
    for name in imports {
        match contract_name(name) {
            Some((interface, version)) => {
                supported(version)?;
                if !IMPORTS.contains(&interface) {
                    return Err(LoadError::UnknownImport(name.clone()));
                }
            }
            None if name.starts_with("wasi:") => return Err(LoadError::Wasi(name.clone())),
            None => return Err(LoadError::UnknownImport(name.clone())),
        }
    }
    strategy.map(str::to_owned).ok_or_else(|| {
        let found = match exports {
            [] => "nothing".to_owned(),
            names => names.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", "),
        };
        LoadError::Contract(format!(
            "it does not export assignor:strategy/strategy@{}; it exports {found}",
            text(SUPPORTED)
        ))
    })
}

/// `assignor:strategy/context@0.1.0` as `("context", "0.1.0")`.
fn contract_name(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(PACKAGE)?.split_once('@')
}

fn supported(version: &str) -> Result<(), LoadError> {
    let mut parts = version.split('.').map(|part| part.parse::<u64>().ok());
    let parsed = (parts.next().flatten(), parts.next().flatten(), parts.next().flatten(), parts.next());
    match parsed {
        (Some(major), Some(minor), Some(patch), None)
            if (major, minor) == (SUPPORTED.0, SUPPORTED.1) && patch <= SUPPORTED.2 =>
        {
            Ok(())
        }
        _ => Err(LoadError::ContractVersion {
            found: format!("assignor:strategy {version}"),
            supported: format!("{}.{} up to {}", SUPPORTED.0, SUPPORTED.1, text(SUPPORTED)),
        }),
    }
}

fn text((major, minor, patch): (u64, u64, u64)) -> String {
    format!("{major}.{minor}.{patch}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn only_this_contract_is_imported_and_exported() {
        let good = names(&["assignor:strategy/strategy@0.1.0"]);
        assert_eq!(check(&names(&["assignor:strategy/lag@0.1.0"]), &good), Ok("0.1.0".into()));
        assert_eq!(check(&[], &names(&["init"])).unwrap_err().code(), "contract");
        for (import, code) in [
            ("wasi:io/streams@0.2.0", "wasi"),
            ("env", "unknown-import"),
            ("assignor:strategy/network@0.1.0", "unknown-import"),
            ("assignor:strategy/lag@0.1.1", "contract-version"),
            ("assignor:strategy/lag@0.3.0", "contract-version"),
        ] {
            assert_eq!(check(&names(&[import]), &good).unwrap_err().code(), code, "{import}");
        }
        let other = check(&[], &names(&["assignor:strategy/strategy@0.3.0"])).unwrap_err();
        assert_eq!(other.to_string(), "built for assignor:strategy 0.3.0, this host runs 0.1 up to 0.1.0");
    }
}
