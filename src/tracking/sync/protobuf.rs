//! Encodes Protobuf messages field by field.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// One without fields.
    pub fn new() -> Self {
        Message::default()
    }

    fn key(&mut self, field: u32, kind: u32) {
        self.number(u64::from(field << 3 | kind));
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    /// An integer, an enumeration or a truth value.
    pub fn varint(mut self, field: u32, value: u64) -> Self {
        self.key(field, 0);
        self.number(value);
        self
    }

    /// An integer that may be negative.
    pub fn int64(self, field: u32, value: i64) -> Self {
        self.varint(field, value.cast_unsigned())
    }

    /// A number of 64 bits.
    pub fn double(mut self, field: u32, value: f64) -> Self {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// A number of 32 bits.
    pub fn float(mut self, field: u32, value: f32) -> Self {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Bytes.
    pub fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.key(field, 2);
        self.number(value.len() as u64);
        self.0.extend(value);
        self
    }

    /// A text.
    pub fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    /// A message within this one.
    pub fn message(self, field: u32, value: &Message) -> Self {
        self.bytes(field, &value.0)
    }

    /// The encoded bytes.
    pub fn encoded(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_in_the_description_of_the_format() {
        // https://protobuf.dev/programming-guides/encoding: 150, "testing", and -2.
        assert_eq!(Message::new().varint(1, 150).encoded(), [8, 0x96, 1]);
        assert_eq!(Message::new().text(2, "testing").encoded(), b"\x12\x07testing");
        let negative = [&[8, 0xfe][..], &[0xff; 8], &[1]].concat();
        assert_eq!(Message::new().int64(1, -2).encoded(), negative);
        let within = Message::new().varint(1, 150);
        assert_eq!(Message::new().message(3, &within).encoded(), [0x1a, 3, 8, 0x96, 1]);
        assert_eq!(Message::new().float(4, 1.0).encoded(), [0x25, 0, 0, 0x80, 0x3f]);
    }
}
