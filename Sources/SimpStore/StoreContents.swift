public import SimpCore

/// How much a store takes.
public struct StoreLimits: Hashable, Sendable {
  /// Messages without a final receipt.
  public var outboxMessages = 16_384
  /// Bytes of them, as `MessageContent.size` counts.
  public var outboxBytes = 64 << 20
  /// Messages that came and are not acknowledged, at most `HandoverLog.records / 2`.
  public var receivedMessages = HandoverLog.records / 2
  /// Senders' devices whose duplicates are known; the longest unused ones go.
  public var marks = 65_536

  public init() {}
}

/// What a store held when it was opened.
public struct StoreContents: Sendable {
  public var outbox: OutboxContents
  /// The user and server it belongs to, empty before the first login.
  public var owner: StoreOwner
  /// Those that came and were not acknowledged, in the order in which the application is to see them.
  public var received: [ReceivedMessage] = []
  public var marks: [Mark] = []

  /// Which orders of a sender's device came.
  public struct Mark: Hashable, Sendable {
    public var user: String
    public var device: UInt32
    public var map: OrderMap
  }
}

/// Whose messages a store holds.
public struct StoreOwner: Hashable, Sendable {
  public var user = ""
  /// The server's name, without port.
  public var server = ""

  public init(user: String = "", server: String = "") {
    self.user = user
    self.server = server
  }
}

/// A message that came, with the number by which it is acknowledged.
public struct ReceivedMessage: Hashable, Sendable {
  public var id: UInt64
  public var message: IncomingMessage
  /// It was handed over before, and not acknowledged.
  public var isRedelivered = false

  public init(id: UInt64, message: IncomingMessage) {
    self.id = id
    self.message = message
  }
}

/// What is to be committed together.
public struct StoreBatch: Sendable {
  public struct Login: Hashable, Sendable {
    public var owner: StoreOwner
    public var deviceNumber: UInt32

    public init(owner: StoreOwner, deviceNumber: UInt32) {
      self.owner = owner
      self.deviceNumber = deviceNumber
    }
  }

  /// New messages, in the order in which they were sent.
  public var sent: [(content: MessageContent, user: String)] = []
  /// Counters of messages with a final receipt.
  public var finished: [UInt64] = []
  /// Messages that came, in the order in which the application is to see them.
  public var received: [IncomingMessage] = []
  /// Of received messages: handed over, and not acknowledged yet.
  public var handedOver: [UInt64] = []
  public var acknowledged: [UInt64] = []
  public var login: Login?

  public init() {}

  public var isEmpty: Bool {
    sent.isEmpty && finished.isEmpty && received.isEmpty && handedOver.isEmpty && acknowledged.isEmpty && login == nil
  }
}

/// The numbers that a commit gave, in the order of its batch.
public struct StoreNumbers: Sendable {
  public var sent: [(counter: UInt64, order: UInt64)] = []
  public var received: [UInt64] = []
}
