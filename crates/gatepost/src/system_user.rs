//! A user of the system, from `/etc/passwd` and `/etc/group`.
//!
//! Read here instead of by the C library, whose name service would load modules and could ask the
//! network before the server has given up its privileges. Users of a directory service are not
//! found.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// A user that the server, or a command, can become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SystemUser {
    pub(crate) uid: Uid,
    /// Its primary group.
    pub(crate) gid: Gid,
    /// All its groups, the primary one first.
    pub(crate) groups: Vec<Gid>,
}

impl SystemUser {
    /// Looks a name up; `None` if there is no such user.
    pub(crate) fn find(name: &str) -> io::Result<Option<Self>> {
        let users = std::fs::read_to_string("/etc/passwd")?;
        let groups = std::fs::read_to_string("/etc/group")?;
        Ok(Self::read(name, &users, &groups))
    }

    /// Becomes the owner of a folder if root runs a command on the data of a server with another
    /// user. Files that the command creates then belong to the server, and no link that this user
    /// may have placed leads root to another file.
    pub(crate) fn become_owner(folder: &Path) -> io::Result<()> {
        if !geteuid().is_root() {
            return Ok(());
        }
        let owner = match std::fs::metadata(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            owner => owner?,
        };
        let gid = Gid::from_raw(owner.gid());
        let user = Self {
            uid: Uid::from_raw(owner.uid()),
            gid,
            groups: vec![gid],
        };
        if user.uid.is_root() {
            return Ok(());
        }
        user.take_over()
    }

    /// Gives up root for this user. Real, effective and saved ids are all set, so that root cannot
    /// be regained. The thread's ids are the process's as long as there is no other thread.
    pub(crate) fn take_over(&self) -> io::Result<()> {
        // In this order: without root's user id the groups could not be changed any more.
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.gid, self.gid, self.gid)?;
        set_thread_res_uid(self.uid, self.uid, self.uid)?;
        let root = Uid::ROOT;
        if !self.uid.is_root() && set_thread_res_uid(root, root, root).is_ok() {
            return Err(io::Error::other("root's privileges could be regained"));
        }
        Ok(())
    }

    /// `name:password:uid:gid:…` and `name:password:gid:member,member`.
    fn read(name: &str, users: &str, groups: &str) -> Option<Self> {
        let mut lines = users.lines().map(|line| line.split(':'));
        let mut fields = lines.find(|fields| fields.clone().next() == Some(name))?;
        let uid = Uid::from_raw(fields.nth(2)?.parse().ok()?);
        let gid = Gid::from_raw(fields.next()?.parse().ok()?);
        let member_of = groups.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let group = Gid::from_raw(fields.nth(2)?.parse().ok()?);
            let is_member = fields
                .next()?
                .split(',')
                .any(|member| member.trim() == name);
            is_member.then_some(group)
        });
        let mut groups = vec![gid];
        groups.extend(member_of.filter(|group| *group != gid));
        Some(Self { uid, gid, groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_its_groups() {
        let users = "root:x:0:0::/root:/bin/sh\ngatepost:x:998:997::/:/sbin/nologin\nbad\n";
        let groups = "root:x:0:\nssl-cert:x:110:exim,gatepost\ngatepost:x:997:gatepost\nbad:x\n";
        let user = SystemUser::read("gatepost", users, groups).expect("a user");
        assert_eq!(user.uid.as_raw(), 998);
        let groups: Vec<u32> = user.groups.iter().map(|group| group.as_raw()).collect();
        assert_eq!(groups, [997, 110]);
        assert_eq!(SystemUser::read("gate", users, ""), None);
        assert_eq!(SystemUser::read("bad", users, ""), None);
    }
}
