import Synchronization

/// A number that only grows. Any thread may add.
public final class Counter: Sendable {
  public let name: String
  private let count = Atomic<UInt64>(0)

  init(name: String) { self.name = name }

  public func add(_ number: UInt64 = 1) { count.wrappingAdd(number, ordering: .relaxed) }
  public var value: UInt64 { count.load(ordering: .relaxed) }
}

/// The counters of a process by name. Look a counter up once and keep it: the look-up takes a lock, adding does not.
public final class CounterRegistry: Sendable {
  /// Only grows; holds each counter under its own name.
  private let counters = Guarded<[String: Counter]>([:])

  public init() {}

  /// The counter of that name, made at the first call.
  ///
  /// - Parameter name: of `a-z 0-9 _`, ending in what is counted: `datagrams_received`.
  public func counter(_ name: String) -> Counter {
    precondition(
      !name.isEmpty && name.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x5F },
      "a counter's name is of a-z 0-9 _")
    return counters.withLock { counters in
      if let counter = counters[name] { return counter }
      let counter = Counter(name: name)
      counters[name] = counter
      return counter
    }
  }

  /// The present values by name.
  public var values: [String: UInt64] {
    counters.withLock { $0.mapValues(\.value) }
  }

  /// A line `name value` for each, sorted by name.
  public var text: String {
    values.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)\n" }.joined()
  }
}
