//! The checksum of every file, and little-endian fields.

use crc_fast::{CrcAlgorithm, checksum};

/// CRC-32C (Castagnoli, as in iSCSI).
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Reads a little-endian `u32`; the caller has checked that the field lies inside `bytes`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

/// Reads a little-endian `u64`; the caller has checked that the field lies inside `bytes`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_the_castagnoli_polynomial() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }
}
