internal import SimpCore

/// The text of a measuring message: which run, sender, conversation and number it belongs to, when it was to leave and
/// when it did, and a checksum over all of it. Everything the verdict says comes from here.
///
/// Letters of 6 bits each: run 4, sender 4, conversation 4, number 8, due 11, lag 7, checksum 8; then filler.
struct Payload: Hashable, Sendable {
  static let minimumBytes = 46

  /// Tells the messages of one run from those of another on the same server. 24 bits.
  var run: UInt32
  /// 24 bits.
  var sender: UInt32
  /// 24 bits.
  var conversation: UInt32
  /// 1, 2, 3 … within the conversation. 48 bits.
  var number: UInt64
  /// When the schedule wanted it to leave, by the monotonic clock.
  var due: Instant
  /// How much later it was handed to the SDK. 42 bits of nanoseconds: 73 min.
  var lag: UInt64

  /// - Parameter size: bytes of the text, at least `minimumBytes`.
  func text(size: Int) -> String {
    precondition(size >= Self.minimumBytes, "a payload has at least \(Self.minimumBytes) bytes")
    var bytes: [UInt8] = []
    bytes.reserveCapacity(size)
    Self.append(UInt64(run), letters: 4, to: &bytes)
    Self.append(UInt64(sender), letters: 4, to: &bytes)
    Self.append(UInt64(conversation), letters: 4, to: &bytes)
    Self.append(number, letters: 8, to: &bytes)
    Self.append(due.nanoseconds, letters: 11, to: &bytes)
    Self.append(min(lag, 1 << 42 - 1), letters: 7, to: &bytes)
    let checksumStart = bytes.count
    Self.append(0, letters: 8, to: &bytes)
    for place in bytes.count..<max(size, bytes.count) {
      bytes.append(Self.letter(number &+ UInt64(place)))
    }
    let checksum = Self.checksum(of: bytes)
    for place in 0..<8 { bytes[checksumStart + place] = Self.letter(checksum >> UInt64(42 - 6 * place)) }
    return String(decoding: bytes, as: UTF8.self)
  }

  init(run: UInt32, sender: UInt32, conversation: UInt32, number: UInt64, due: Instant, lag: UInt64) {
    self.run = run
    self.sender = sender
    self.conversation = conversation
    self.number = number
    self.due = due
    self.lag = lag
  }

  /// Reads a text back; nil when any byte of it is not as it was written.
  init?(reading text: String) {
    var bytes = Array(text.utf8)
    guard bytes.count >= Self.minimumBytes else { return nil }
    var place = 0
    func take(_ letters: Int) -> UInt64? {
      var value: UInt64 = 0
      for _ in 0..<letters {
        guard let bits = Self.bits(bytes[place]) else { return nil }
        value = value << 6 | bits
        place += 1
      }
      return value
    }
    guard let run = take(4), let sender = take(4), let conversation = take(4), let number = take(8),
      let due = take(11), let lag = take(7), let checksum = take(8)
    else { return nil }
    for index in 38..<46 { bytes[index] = Self.letter(0) }
    guard Self.checksum(of: bytes) & (1 << 48 - 1) == checksum else { return nil }
    self.init(
      run: UInt32(run), sender: UInt32(sender), conversation: UInt32(conversation), number: number,
      due: Instant(nanoseconds: due), lag: lag)
  }

  private static func append(_ value: UInt64, letters: Int, to bytes: inout [UInt8]) {
    for place in 1...letters { bytes.append(letter(value >> UInt64(6 * (letters - place)))) }
  }

  /// `0` to `o`, 64 letters in a row of ASCII.
  private static func letter(_ value: UInt64) -> UInt8 { 0x30 + UInt8(value & 63) }

  private static func bits(_ byte: UInt8) -> UInt64? {
    byte >= 0x30 && byte < 0x70 ? UInt64(byte - 0x30) : nil
  }

  /// Mixes each byte with its place; the high bits, which every input reaches.
  private static func checksum(of bytes: [UInt8]) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    hash ^= hash >> 32
    hash = hash &* 0x9E37_79B9_7F4A_7C15
    return hash >> 16
  }
}
