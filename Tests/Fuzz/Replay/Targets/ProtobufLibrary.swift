internal import CProtobufC
internal import CSimpMessages

@testable import SimpCore

/// protobuf-c as a judge of the reader of messages, which the library does not use it for.
enum ProtobufLibrary {
  static func check(_ fields: MessageFields, _ payload: [UInt8]) throws {
    guard !payload.isEmpty else { return }
    // SAFETY: protobuf-c reads `count` bytes during the call; the message is freed once, after its last use.
    guard let message = unsafe simp__message__unpack(nil, payload.count, payload) else {
      throw Violation(description: "taken by the reader of messages, and refused by protobuf-c")
    }
    defer { unsafe simp__message__free_unpacked(message, nil) }
    let other = unsafe message.pointee
    let span = payload.span
    func text(_ pointer: UnsafeMutablePointer<CChar>?) -> String {
      guard let pointer = unsafe pointer else { return "" }
      return unsafe String(cString: pointer)
    }

    try require(unsafe fields.messageId == other.message_id && fields.time == other.time, "id or time")
    try require(unsafe fields.serverTime == other.server_time && fields.order == other.order, "time or order")
    try require(unsafe fields.floor == other.floor, "floor")
    try require(unsafe fields.imageScale.bitPattern == other.image_scale.bitPattern, "image_scale")
    try require(unsafe UInt32(truncatingIfNeeded: fields.type) == other.type.rawValue, "type")
    try require(unsafe Text.string(span, fields.content) == text(other.content), "content")
    try require(unsafe Text.string(span, fields.imageURL) == text(other.image_url), "image_url")
    try require(unsafe fields.fromUser(in: span) == text(other.from_user), "from_user")
    try require(unsafe fields.toUser(in: span) == text(other.to_user), "to_user")
    try require(unsafe Text.string(span, fields.toGroup) == text(other.to_group), "to_group")
    try require(unsafe fields.custom.count == other.custom.len, "custom")
  }
}
