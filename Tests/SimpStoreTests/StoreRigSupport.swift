import Glibc
import ProgramRig
import SimpCore
import Testing

@testable import SimpStore

/// A store's path in a directory of its own.
struct StorePlace {
  let directory: TestDirectory
  var path: String { directory.path + "/store" }

  init() throws { directory = try TestDirectory() }

  func open(_ limits: StoreLimits = StoreLimits()) throws(StoreError) -> MessageStore {
    try MessageStore(path: path, limits: limits)
  }

  /// Starts `store-rig`, with this store unless another path is given.
  func rig(_ command: String, path: String? = nil, _ arguments: String...) async throws -> RunningProgram {
    try await RunningProgram("store-rig", [command, path ?? self.path] + arguments, in: directory)
  }
}

extension StoreBatch {
  init(_ texts: [String], to user: String = "bob") {
    self.init()
    sent = texts.map { (MessageContent(text: $0), user) }
  }
}

/// A message as a server relays it.
func incoming(
  _ order: UInt64, _ text: String? = nil, from user: String = "alice", device: UInt32 = 1, floor: UInt64 = 1
) throws -> IncomingMessage {
  let encoded = EncodedMessage(
    MessageContent(text: text ?? "\(order)"), messageId: UInt64(device) << 40 | order, order: order, toUser: "bob")
  let relayed = EncodedMessage(
    relaying: encoded.bytes.span.extracting(WireLimits.headerBytes...), from: user, serverTime: 7)
  var message = try IncomingMessage(
    reading: relayed.bytes.span.extracting(WireLimits.headerBytes...), transport: .udp)
  message.floor = floor
  return message
}

extension RunningProgram {
  /// The numbers of whole lines that begin with `word`.
  func numbers(_ word: String) -> [UInt64] {
    lines.compactMap { line in
      let parts = line.split(separator: " ")
      return parts.count >= 2 && parts[0] == word ? UInt64(parts[1]) : nil
    }
  }
}
