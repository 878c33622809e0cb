//! Checks that the server can read its private keys again after it has given up root.
//!
//! A server that is started as root reads its keys before it becomes another user. A key that only
//! root can read works until its certificate is renewed: the new pair cannot be read, and the old
//! one expires in use.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::config::Config;
use crate::system_user::SystemUser;

/// The extended attribute of an access control list that goes beyond the mode (acl(5)).
const ACCESS_LIST: &str = "system.posix_acl_access";

/// The keys of the config that the server cannot read while it runs.
pub(crate) fn unreadable_keys(config: &Config) -> Vec<PathBuf> {
    let mut keys: Vec<PathBuf> = Vec::new();
    for binding in config.listeners.bindings() {
        for key in binding.tls.key_files() {
            if !keys.iter().any(|known| known == key) {
                keys.push(key.to_owned());
            }
        }
    }
    if !geteuid().is_root() {
        keys.retain(|key| is_refused(key));
        return keys;
    }
    // Without such a user the server remains root.
    match SystemUser::find(&config.user) {
        Ok(Some(user)) if !user.uid.is_root() => keys.retain(|key| !may_read(&user, key)),
        _ => keys.clear(),
    }
    keys
}

/// Whether this process is refused the file. A missing file is reported as another mistake.
fn is_refused(file: &Path) -> bool {
    let opened = File::open(file);
    opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Whether another user could read the file, by owners and modes. A file with an access control
/// list counts as readable: the server itself will find out.
fn may_read(user: &SystemUser, file: &Path) -> bool {
    const READ: u32 = 0o4;
    const ENTER: u32 = 0o1;
    let Ok(file) = file.canonicalize() else {
        return true;
    };
    let mut parents = file.ancestors().skip(1);
    permits(user, &file, READ) && parents.all(|folder| permits(user, folder, ENTER))
}

fn permits(user: &SystemUser, path: &Path, wanted: u32) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else {
        return true;
    };
    let has_list = rustix::fs::getxattr(path, ACCESS_LIST, &mut [0; 0][..]).is_ok_and(|it| it > 0);
    let mode = metadata.mode();
    // The first matching class decides, not the most permissive.
    let granted = if metadata.uid() == user.uid.as_raw() {
        mode >> 6
    } else if user
        .groups
        .iter()
        .any(|group| group.as_raw() == metadata.gid())
    {
        mode >> 3
    } else {
        mode
    };
    has_list || granted & wanted != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Gid, Uid};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_user_reads_what_owners_and_modes_permit() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("private");
        std::fs::create_dir(&inner).expect("a folder");
        let key = inner.join("key.pem");
        std::fs::write(&key, "key").expect("written");
        let metadata = std::fs::metadata(&key).expect("a file");
        let mode = |path: &Path, mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, permissions).expect("set");
        };
        mode(folder.path(), 0o755);
        let user = |uid, gid| SystemUser {
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
            groups: vec![Gid::from_raw(gid)],
        };
        let owner = user(metadata.uid(), 70_001);
        let member = user(70_000, metadata.gid());
        let stranger = user(70_000, 70_001);
        for (folder_mode, key_mode, by_owner, by_member, by_stranger) in [
            (0o755, 0o600, true, false, false),
            (0o755, 0o640, true, true, false),
            (0o755, 0o604, true, false, true),
            (0o750, 0o644, true, true, false),
            (0o700, 0o644, true, false, false),
        ] {
            mode(&inner, folder_mode);
            mode(&key, key_mode);
            let found = [&owner, &member, &stranger].map(|user| may_read(user, &key));
            let expected = [by_owner, by_member, by_stranger];
            assert_eq!(found, expected, "{folder_mode:o} {key_mode:o}");
        }
        assert!(may_read(&stranger, &inner.join("missing")));
    }
}
