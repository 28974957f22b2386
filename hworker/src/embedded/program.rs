//! Finds the server program.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::Error;

const PROGRAMS: [&str; 2] = ["valkey-server", "redis-server"];

/// Where the asked-for program is, or the first of [`PROGRAMS`] on the `PATH`.
pub(super) fn find(asked: Option<&Path>) -> Result<PathBuf, Error> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = env::split_paths(&path).collect();
    find_in(asked, &dirs)
}

pub(super) fn find_in(asked: Option<&Path>, dirs: &[PathBuf]) -> Result<PathBuf, Error> {
    let Some(asked) = asked else {
        let found = PROGRAMS.iter().find_map(|name| on_path(Path::new(name), dirs));
        return found
            .ok_or_else(|| missing("neither valkey-server nor redis-server is on the PATH"));
    };
    let is_name = asked.components().count() == 1 && !asked.is_absolute();
    let found =
        if is_name { on_path(asked, dirs) } else { is_program(asked).then(|| asked.into()) };
    let place = if is_name { "on the PATH" } else { "an executable file" };
    found.ok_or_else(|| missing(&format!("{} is not {place}", asked.display())))
}

fn on_path(name: &Path, dirs: &[PathBuf]) -> Option<PathBuf> {
    dirs.iter().map(|dir| dir.join(name)).find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn missing(what: &str) -> Error {
    Error::config(format!(
        "{what}: install one of them (Debian and Ubuntu: `apt install redis-server`; Fedora: `dnf install valkey`; \
         Alpine: `apk add valkey`; macOS: `brew install valkey`), or name the program with \
         `Server::builder().program(..)`"
    ))
}
