internal import SimpCore

/// What one message says. Only what is set travels.
public struct SIMPContent: Hashable, Sendable {
  /// The kind of a message; numbers of newer versions pass through.
  public struct Kind: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt64
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    public static let text = Kind(rawValue: 1)
    public static let image = Kind(rawValue: 2)
    public static let audio = Kind(rawValue: 3)
  }

  public var kind = Kind.text
  /// UTF-8 without U+0000; may be empty.
  public var text = ""
  /// Where an image lies: images do not travel inside messages.
  public var imageURL = ""
  /// Width over height of the image, 0 when unknown.
  public var imageScale: Float = 0
  /// The application's own bytes, which the server does not look at.
  public var custom: [UInt8] = []

  public init(text: String = "", custom: [UInt8] = []) {
    self.text = text
    self.custom = custom
  }

  init(_ content: MessageContent) {
    kind = Kind(rawValue: content.type)
    text = content.text
    imageURL = content.imageURL
    imageScale = content.imageScale
    custom = content.custom
  }

  /// - Parameter time: when it was written, Unix milliseconds.
  func message(time: UInt64) -> MessageContent {
    var content = MessageContent(text: text, time: time)
    content.type = kind.rawValue
    content.imageURL = imageURL
    content.imageScale = imageScale
    content.custom = custom
    return content
  }
}
