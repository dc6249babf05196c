//! Detects network file systems, where SQLite's locks and shared memory do not work.

use std::path::Path;

/// The name of the network file system with this magic number (`statfs`'s `f_type`, from Linux's
/// `magic.h` and the file systems' own sources); `None` for local ones, overlays, tmpfs, virtual
/// machines' shares (9p, virtiofs) and unknown ones.
pub(super) fn network_name(magic: u32) -> Option<&'static str> {
    match magic {
        0x6969 => Some("NFS"),
        0x517B | 0xFF53_4D42 | 0xFE53_4D42 => Some("SMB/CIFS"),
        0x0BD0_0BD0 => Some("Lustre"),
        0x4750_4653 => Some("GPFS"),
        0x00C3_6400 => Some("CephFS"),
        0x5346_414F | 0x6B41_4653 => Some("AFS"),
        0x1983_0326 => Some("BeeGFS"),
        0xAAD7_AAEA => Some("PanFS"),
        0x564C => Some("NCP"),
        0x7375_7245 => Some("Coda"),
        _ => None,
    }
}

/// The number of the mount that a file is on; `None` if it is unknown (before Linux 5.8).
pub(super) fn mount(path: &Path) -> Option<u64> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

/// FUSE's magic number; the file system behind it is named in the mount table only.
const FUSE: u32 = 0x6573_5546;

/// The name of a network file system behind FUSE, by its type in the mount table; `None` for local
/// ones and virtiofs.
pub(super) fn fuse_name(kind: &str) -> Option<&'static str> {
    let known = [
        "sshfs",
        "s3fs",
        "rclone",
        "gcsfuse",
        "glusterfs",
        "davfs",
        "mount-s3",
        "juicefs",
        "curlftpfs",
        "ceph",
    ];
    let program = kind.strip_prefix("fuse.")?;
    known.into_iter().find(|name| *name == program)
}

/// The type of the mount that holds `directory` (absolute, links resolved), from the text of
/// `/proc/self/mountinfo`.
pub(super) fn mount_type<'a>(mountinfo: &'a str, directory: &Path) -> Option<&'a str> {
    // "36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/sda1 rw": the optional fields
    // end with the dash.
    let mounts = mountinfo.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let point = place.split(' ').nth(4)?.replace("\\040", " ");
        directory.starts_with(&point).then_some((point.len(), kind.split(' ').next()?))
    });
    // Of two mounts on one point the later one is visible.
    mounts.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// The name of the network file system that holds `directory`, if known.
#[cfg(target_os = "linux")]
pub(super) fn network_file_system(directory: &Path) -> Option<&'static str> {
    let directory = std::fs::canonicalize(directory).ok()?;
    let statfs = rustix::fs::statfs(&directory).ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "magic numbers are 32 bits in a field of varying width"
    )]
    let magic = statfs.f_type as u32;
    if magic != FUSE {
        return network_name(magic);
    }
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    fuse_name(mount_type(&mountinfo, &directory)?)
}

/// The name of the network file system that holds `directory`: unknown on this system.
#[cfg(not(target_os = "linux"))]
pub(super) fn network_file_system(_directory: &Path) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        for (magic, name) in [
            (0x6969, "NFS"),
            (0xFF53_4D42, "SMB/CIFS"),
            (0x0BD0_0BD0, "Lustre"),
            (0x00C3_6400, "CephFS"),
        ] {
            assert_eq!(network_name(magic), Some(name));
        }
        let (ext4, xfs, btrfs, zfs, tmpfs, overlay, ninep) =
            (0xEF53, 0x5846_5342, 0x9123_683E, 0x2FC1_2FC1, 0x0102_1994, 0x794C_7630, 0x0102_1997);
        for magic in [ext4, xfs, btrfs, zfs, tmpfs, overlay, ninep, FUSE, 0] {
            assert_eq!(network_name(magic), None, "{magic:x}");
        }
    }

    #[test]
    fn the_deepest_mount_decides_about_fuse() {
        let mountinfo = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                         40 22 0:50 / /home/me/far\\040away rw,nosuid shared:5 - fuse.sshfs \
                         me@host: rw\n\
                         41 22 0:51 / /home/me rw - virtiofs share rw\n";
        assert_eq!(mount_type(mountinfo, Path::new("/home/me/far away/runs")), Some("fuse.sshfs"));
        assert_eq!(mount_type(mountinfo, Path::new("/home/me/runs")), Some("virtiofs"));
        assert_eq!(mount_type(mountinfo, Path::new("/home/meandmore")), Some("ext4"));
        assert_eq!(fuse_name("fuse.sshfs"), Some("sshfs"));
        assert_eq!(fuse_name("virtiofs"), None);
        assert_eq!(fuse_name("fuse.ntfs-3g"), None);
    }

    #[test]
    fn a_temporary_directory_is_local() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(network_file_system(directory.path()), None);
    }
}
