@testable import SimpCore

/// Which losses made a message take as long as it took, told from the datagrams themselves: how often each hop lost a
/// datagram that carried it, and whether receipts towards who sent it got lost meanwhile.
final class LossTrace {
  private var fates: [Ledger.Name: Fate] = [:]
  /// When a datagram with a receipt was lost, by the client at the other end of its link.
  private var receipts: [Road: [Instant]] = [:]
  /// Packets of the datagram that was sealed last.
  private var bodies: [Ledger.Name] = []
  private var hasReceipt = false

  /// One direction of a client's link.
  struct Road: Hashable {
    var client: String
    var isUp: Bool
  }

  private struct Fate {
    var copiesUp = 0
    var copiesDown = 0
    var lostUp = 0
    var lostDown = 0
  }

  /// A datagram is about to be sealed.
  func sealing(_ plaintext: [UInt8], hasReceipt: Bool) {
    self.hasReceipt = hasReceipt
    bodies.removeAll()
    var offset = WireLimits.datagramHeaderBytes
    while offset + WireLimits.headerBytes <= plaintext.count {
      let length = plaintext[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) }
      guard length >= WireLimits.headerBytes, offset + length <= plaintext.count else { return }
      let packet = plaintext.span.extracting(offset..<offset + length)
      offset += length
      guard let header = try? PacketHeader(reading: packet, limit: length), header.command == .message else { continue }
      let payload = packet.extracting(WireLimits.headerBytes..<length)
      guard let fields = try? MessageFields(reading: payload) else { continue }
      let body = payload.extracting(fields.content)
      if let name = Ledger.name(in: String(decoding: body.indices.map { body[$0] }, as: UTF8.self)) {
        bodies.append(name)
      }
    }
  }

  /// It left by that road.
  func left(_ road: Road, isLost: Bool, now: Instant) {
    if isLost, hasReceipt { receipts[road, default: []].append(now) }
    for name in bodies {
      var fate = fates[name] ?? Fate()
      if road.isUp {
        fate.copiesUp += 1
        if isLost { fate.lostUp += 1 }
      } else {
        fate.copiesDown += 1
        if isLost { fate.lostDown += 1 }
      }
      fates[name] = fate
    }
  }

  // MARK: - What it was

  private struct Cause: Hashable, Comparable, CustomStringConvertible {
    var lostUp: Int
    var lostDown: Int
    var receipts: Bool

    var description: String {
      "\(lostUp) lost on the first hop, \(lostDown) on the second" + (receipts ? ", and receipts" : "")
    }

    static func < (left: Self, right: Self) -> Bool {
      (left.lostUp + left.lostDown, left.lostUp, right.receipts ? 1 : 0)
        < (right.lostUp + right.lostDown, right.lostUp, left.receipts ? 1 : 0)
    }
  }

  /// A line for each kind of loss: how many messages it met, and how long these took.
  func lines(_ messages: [Ledger.Name: Ledger.Sent]) -> [String] {
    var times: [Cause: [Double]] = [:]
    for (name, message) in messages {
      guard let taken = message.firstTaken, let fate = fates[name] else { continue }
      let span = message.at...taken
      let lostReceipts = [Road(client: name.from, isUp: false), Road(client: name.to, isUp: true)].contains { road in
        receipts[road, default: []].contains { span.contains($0) }
      }
      let isLost = fate.lostUp + fate.lostDown > 0
      let cause = Cause(lostUp: fate.lostUp, lostDown: fate.lostDown, receipts: isLost && lostReceipts)
      times[cause, default: []].append((taken - message.at).milliseconds)
    }
    return times.sorted { $0.key < $1.key }.map { cause, unsorted in
      let times = unsorted.sorted()
      let share = Double(times.count) / Double(messages.count) * 100
      return "  \(cause): \(times.count) messages, \(share) %, ms least \(times[0]) p50 \(times[times.count / 2])"
        + " p90 \(times[(times.count - 1) * 9 / 10]) most \(times[times.count - 1])"
    }
  }
}
