/// What stands between a stream's socket and its packets: nothing (`PlainPipe`), or TLS.
///
/// A pipe does no I/O. It is handed bytes from the socket and hands back bytes for it; the stream carries them.
public protocol BytePipe: AnyObject {
  /// Whether plain bytes may pass. Until then the stream keeps what is written to it.
  var isReady: Bool { get }

  /// Whether the peer said, inside the pipe, that it sends no more.
  var isEnded: Bool { get }

  /// Called once when the socket is connected. Appends what the pipe wants to send first (a handshake) to `wire`.
  func start(wire: inout [UInt8]) throws(PipeError)

  /// How many bytes are missing, at least, behind the first ones from the socket before they can be answered or refused; 0
  /// when they are whole. To be asked before what may be dear.
  func greetingShortage(_ wire: Span<UInt8>) -> Int

  /// Takes bytes from the socket. Appends the plain bytes that came out to `plain`, and what the pipe itself answers
  /// to `reply`.
  func receive(_ wire: Span<UInt8>, plain: inout [UInt8], reply: inout [UInt8]) throws(PipeError)

  /// Takes bytes from the application, only while `isReady`. Appends what the socket is to carry to `wire`.
  func send(_ plain: Span<UInt8>, wire: inout [UInt8]) throws(PipeError)

  /// Called once before the stream ends its output. Appends the pipe's farewell to `wire`.
  func finish(wire: inout [UInt8])
}

extension BytePipe {
  public func greetingShortage(_ wire: Span<UInt8>) -> Int { 0 }
}

/// Why a pipe cannot go on: the peer's bytes make no sense, or it is not who it should be.
public struct PipeError: Error, Sendable, Equatable {
  /// For a person.
  public var reason: String
  /// The bytes were fine, but the peer is not who it should be.
  public var isUntrusted = false

  public init(_ reason: String) { self.reason = reason }
}

/// Bytes pass as they are. A stream knows this pipe and goes around it, without a copy.
public final class PlainPipe: BytePipe {
  public init() {}
  public var isReady: Bool { true }
  public var isEnded: Bool { false }
  public func start(wire: inout [UInt8]) {}
  public func receive(_ wire: Span<UInt8>, plain: inout [UInt8], reply: inout [UInt8]) { plain.append(copying: wire) }
  public func send(_ plain: Span<UInt8>, wire: inout [UInt8]) { wire.append(copying: plain) }
  public func finish(wire: inout [UInt8]) {}
}

extension [UInt8] {
  /// Appends the bytes of a span.
  package mutating func append(copying span: Span<UInt8>) {
    // SAFETY: the buffer is used only inside the closure, where `span` is alive.
    unsafe span.withUnsafeBufferPointer { bytes in unsafe append(contentsOf: bytes) }
  }
}
