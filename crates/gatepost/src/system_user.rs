//! A user of the system, from `/etc/passwd` and `/etc/group`.
//!
//! Read here instead of by the C library, whose name service would load modules and could ask the
//! network before the server has given up its privileges. Users of a directory service are not
//! found.

use std::io;

use rustix::process::{Gid, Uid};

/// The user that the server can become.
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
