import Testing

@testable import SimpCore

/// What passes by the hundred thousand a second stays small; a field more is a decision, not an accident.
@Suite struct LayoutTests {
  @Test func hotValues() {
    #expect(MemoryLayout<Instant>.size == 8)
    #expect(MemoryLayout<Interval>.size == 8)
    #expect(MemoryLayout<MessageKey>.size == 8)
    #expect(MemoryLayout<DatagramHeader>.size == 16)
    #expect(MemoryLayout<PacketHeader>.size <= 16)
    #expect(MemoryLayout<PeerAddress>.size <= 28)
    #expect(MemoryLayout<ProtobufField>.size <= 32)
    #expect(MemoryLayout<EncodedMessage>.size <= 24)
    #expect(MemoryLayout<SentDatagram>.size <= 48)
    #expect(MemoryLayout<MessageWindow.Entry>.size <= 72)
    #expect(MemoryLayout<ReplayWindow>.size <= 144)
    #expect(MemoryLayout<OrderMap>.size <= 16)
    #expect(MemoryLayout<MessageFields>.size <= 192)
  }
}
