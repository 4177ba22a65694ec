import SimpIO

@testable import SimpCore

/// A sealed datagram from the wire to its packets, under both suites: what is not authentic is dropped without a trace,
/// a number counts once, and of what is inside only whole packets are handed on.
enum DatagramTarget {
  static let target = FuzzTarget(name: "datagram", maximumBytes: 384, seeds: { seeds }, run: run)

  private static let now = Instant(nanoseconds: 1_000_000_000)

  private static func run(_ input: [UInt8]) throws {
    var script = InputReader(input)
    let choice = script.byte()
    let suite = KeyRing.Suite(isChaCha: choice & 1 == 1)
    let isReflected = choice & 2 != 0
    let channel = Channel()
    channel.startProbing(KeyRing(suite), connectionId: ServerRig.connectionId, seed: 7, now: now)
    var taken = Taken()

    while !script.isAtEnd {
      let kind = script.byte()
      guard kind >= 48 else {
        try dropped(script.bytes(Int(script.byte())), by: channel)
        continue
      }
      guard kind < 240 else {
        // A receipt leaves: the peer may change its key.
        if channel.received.takeReceipt(now: now) != nil { channel.phases.receiptLeft() }
        continue
      }
      let phase = UInt64(kind & 3)
      let number = script.number()
      let plain = script.bytes(Int(script.byte()))
      var datagram: [UInt8] = []
      let header = DatagramHeader(
        connectionId: ServerRig.connectionId, packetNumber: number, isOddPhase: phase & 1 == 1)
      header.append(to: &datagram)
      datagram += plain
      suite.seal(&datagram, number, phase: phase, isReflected: isReflected)
      if kind < 180, !isReflected {
        try received(datagram, number, phase, plain, by: channel, &taken)
      } else if kind < 210 {
        try dropped(Array(datagram.dropLast(1 + Int(script.byte()) % datagram.count)), by: channel)
      } else {
        let place = Int(script.byte()) * 5 % datagram.count
        if !isReflected { datagram[place] ^= 1 << (kind & 7) }
        try dropped(datagram, by: channel)
      }
    }
  }

  private static func dropped(_ bytes: [UInt8], by channel: Channel) throws {
    let before = (channel.received.hasNews, channel.highestReceived, channel.counters.datagramsReceived)
    var datagram = bytes
    var span = datagram.mutableSpan
    let arrival = channel.receive(datagram: &span, now: now) { (_, _) throws(WireError) in
      preconditionFailure("a packet out of what is not authentic")
    }
    try require(arrival == nil, "taken though not authentic")
    let after = (channel.received.hasNews, channel.highestReceived, channel.counters.datagramsReceived)
    try require(before == after, "not authentic, and left a trace")
  }

  /// The datagrams that were taken: number and phase.
  private struct Taken {
    var phases: [UInt64: UInt64] = [:]
    /// All datagrams that were dropped were of the present phase: no number is spent on a change against the rules.
    var isHonest = true
    var highest: UInt64? { phases.keys.max() }
    var phase: UInt64 { phases.values.max() ?? 0 }
  }

  private static func received(
    _ bytes: [UInt8], _ number: UInt64, _ phase: UInt64, _ plain: [UInt8], by channel: Channel, _ taken: inout Taken
  ) throws {
    var datagram = bytes
    var span = datagram.mutableSpan
    var packets: [[UInt8]] = []
    let arrival = channel.receive(datagram: &span, now: now) { (header, payload) throws(WireError) in
      packets.append([UInt8](payload))
      guard Int(header.length) == WireLimits.headerBytes + payload.count else { throw .malformed }
      return header.sequence & 1 == 0
    }
    guard let arrival else {
      // The highest number so far, under the present key, has nothing against it.
      if phase != taken.phase { taken.isHonest = false }
      let isRight = taken.isHonest && taken.highest.map { number > $0 } ?? true
      return try require(!isRight && packets.isEmpty, "an authentic datagram is dropped: \(number) of phase \(phase)")
    }
    let highest = taken.highest
    try require(taken.phases[number] == nil, "number \(number) is taken again")
    try require(highest.map { number > $0 || $0 - number < ReplayWindow.width } ?? true, "\(number) is too old")
    try require(phase <= taken.phase + 1 && phase + 1 >= taken.phase, "phase \(phase) after \(taken.phase)")
    // Of two former phases a receiver keeps no numbers.
    let present = max(phase, taken.phase)
    for (other, its) in taken.phases where its != phase && max(its, phase) == present {
      try require((other < number) == (its < phase), "\(number) of phase \(phase), and \(other) of \(its)")
    }
    taken.phases[number] = phase
    try require(arrival.isNewest == (highest.map { number > $0 } ?? true), "newest or not")
    let (expected, isWhole) = whole(plain)
    try require(packets == expected, "\(packets.count) packets, and \(expected.count) are in it")
    try require(isWhole || arrival.isAnswered, "part of it was dropped, and its receipt says that all was taken")
    try require(channel.received.ranges.count <= WireLimits.maximumReceiptRanges, "ranges")
  }

  /// The payloads of the packets that fill the text, up to the first broken header.
  private static func whole(_ plain: [UInt8]) -> ([[UInt8]], Bool) {
    var payloads: [[UInt8]] = []
    var rest = plain[...]
    while !rest.isEmpty {
      guard rest.count >= 16 else { return (payloads, false) }
      let head = Array(rest.prefix(16))
      let length = head.prefix(4).reduce(0) { $0 << 8 | Int($1) }
      let isRight = head[4] == 0 && head[5] == 1 && head[6] == 0 && head[7] <= 7 && head[14] == 0 && head[15] == 0
      guard length >= 16, length <= rest.count, isRight else { return (payloads, false) }
      payloads.append(Array(rest.prefix(length).dropFirst(16)))
      rest = rest.dropFirst(length)
    }
    return (payloads, true)
  }

  private static var seeds: [[UInt8]] {
    let ping = Packets.ping
    let two = ping + Packets.message(order: 1)
    let one = UInt8(ping.count)
    return [
      [0, 100, 1, UInt8(two.count)] + two + [100, 2, one] + ping, [1, 100, 1, one] + ping + [100, 1, one] + ping,
      [0, 210, 1, one] + ping + [9, 100, 7, one] + ping, [2, 210, 1, one] + ping + [9], [1, 3, 40] + two,
      [0, 100, 1, 0, 240, 101, 10, 0, 100, 8, 0, 240, 102, 20, 0, 101, 15, 0],
      [1, 180, 1, one] + ping + [3, 100, 1, 0], [0, 100, 0xDC, 127, one] + ping + [100, 3, one] + ping,
    ]
  }
}
