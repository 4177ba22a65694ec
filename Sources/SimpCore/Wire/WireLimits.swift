/// Every constant of the wire in one place, with unit and reason. Protocols/WIRE.md repeats the normative ones.
public enum WireLimits {
  /// Bytes of a packet header.
  public static let headerBytes = 16
  /// Version in each packet header.
  public static let packetVersion: UInt16 = 1
  /// Protocol version negotiated by the login.
  public static let protocolVersion: UInt32 = 1

  /// Largest packet before login, in bytes: a token fits, a flood does not.
  public static let maximumPacketBytesBeforeLogin = 4096
  /// Largest packet after login, in bytes, header included.
  public static let maximumPacketBytes = 262_144
  /// Largest content of a message, in bytes as `MessageContent.size` counts: with names, numbers and what the server adds
  /// the packet keeps its limit.
  public static let maximumContentBytes = maximumPacketBytes - 512
  /// What the server may add to a message: from_user (66 bytes) and server_time (11 bytes), rounded up.
  public static let relayReserveBytes = 96
  /// Largest payload of a message that a client sends: relayed, it still fits a packet.
  public static let maximumMessagePayloadBytes = maximumPacketBytes - headerBytes - relayReserveBytes

  /// Header of a datagram and tag at its end, in bytes.
  public static let datagramHeaderBytes = 16
  public static let datagramTagBytes = 16
  /// Largest datagram, in bytes: passes every path that IPv6 allows (RFC 9000, section 14).
  public static let maximumDatagramBytes = 1200
  /// Datagrams of a direction after which its key changes. Far under the limit, so that a change happens within seconds
  /// of load and not first after hours; deriving a key costs what sealing some 20 datagrams does.
  public static let keyPhaseDatagrams: UInt64 = 65536
  /// Datagrams sealed under one key at most (RFC 9001, section 6.6, for AES-GCM).
  public static let maximumSealedDatagrams: UInt64 = 8_388_608
  /// Datagrams of a session with a bad tag at most (RFC 9001, section 6.6, for ChaCha20-Poly1305).
  public static let maximumForgedDatagrams: UInt64 = 68_719_476_736
  /// Plaintext that fits one datagram, in bytes.
  public static let maximumDatagramPlaintextBytes = maximumDatagramBytes - datagramHeaderBytes - datagramTagBytes

  public static let maximumUserNameBytes = 64
  public static let maximumTokenBytes = 3072

  /// An order may exceed the floor of its conversation by less than this (bits of the duplicate map).
  public static let orderWindow: UInt64 = 16384
  /// Messages of one session that are sent and not yet final.
  public static let windowMessages = 1024
  /// Bytes of them.
  public static let windowBytes = 4 << 20
  /// Bytes of datagrams that may fly on a path nobody knows (RFC 9002, section 7.2): ten datagrams. A path of 50 us
  /// has doubled it five times before a person notices; a long one is not flooded.
  public static let initialCongestionWindow = 12_000
  /// What the congestion window grows to at most: the window of messages, in bytes.
  public static let maximumCongestionWindow = 4_194_304

  /// Ranges of datagram numbers kept by a receiver, and sent in a receipt.
  public static let maximumReceiptRanges = 32
  /// Datagrams whose outcome travels on TCP, named in a receipt.
  public static let maximumAnsweredDatagrams = 64
  /// Outcomes in one receipt: a packet stays well under the limit with full names.
  public static let maximumOutcomes = 512

  /// An address that is not proven gets at most this many times the bytes that came from it.
  public static let amplificationFactor = 3
}

/// Times of the protocol, in one place. A server tells a client those marked so in the login reply.
public enum WireTimes {
  /// From accept to a finished login.
  public static let login = Interval.seconds(10)
  /// Part (a) waits this long at most when nothing asks for it at once.
  public static let receiptDelay = Interval.milliseconds(100)
  /// Part (a) leaves after this many datagrams.
  public static let receiptEveryDatagrams = 32
  /// Part (b), after the first of a burst.
  public static let outcomeInterval = Interval.milliseconds(100)
  /// Part (b) leaves at once when it speaks of this many messages: a quarter of the window.
  public static let outcomesAtOnce = WireLimits.windowMessages / 4
  /// A datagram wants its receipt now when nothing was first sent for this long.
  public static let idleBeforeReceiptWanted = Interval.milliseconds(50)
  /// While few datagrams fly a receipt is wanted now twice in a round trip, but no more often than this.
  public static let betweenAskingThin = Interval.milliseconds(10)

  /// RTT before the first sample (RFC 9002, section 6.2.2).
  public static let initialRTT = Interval.milliseconds(333)
  /// Timer granularity (RFC 9002, section 6.1.2).
  public static let granularity = Interval.milliseconds(1)
  /// The backoff of probe timeouts stops growing here.
  public static let maximumProbeTimeout = Interval.seconds(3)

  /// A message that is not receipted goes by TCP as well after this time, or after this many probe timeouts.
  public static let escalation = Interval.seconds(3)
  /// A message that went by TCP alone and is not accepted goes by UDP as well after this time.
  public static let assist = Interval.seconds(1)
  /// A message that was accepted and not finished is offered again by TCP after this time.
  public static let acceptedWithoutFinal = Interval.seconds(5)

  /// A message waits this long after a login for the first proof of the path, then goes by TCP.
  public static let firstProbing = Interval.seconds(1)
  /// Challenges after a login leave at these times; then every `probeEvery` for `probeFast`, then `probeSlow`.
  public static let firstChallenges: [Interval] = [0, 60, 150, 300, 500, 750].map { .milliseconds($0) }
  public static let probeEvery = Interval.seconds(5)
  public static let probeFast = Interval.seconds(60)
  public static let probeBusy = Interval.seconds(9)
  public static let probeSlow = Interval.seconds(60)
  /// A client that challenges a path that is up for the server is told so again, but not within this time: less than
  /// `probeEvery`, so that its next challenge brings it.
  public static let pathUpAgain = Interval.seconds(4)
  /// Consecutive probe timeouts after which a path is down.
  public static let downProbeTimeouts = 3
  /// Keep-alives of a client that a server misses before it takes the path for down, and the grace for the last of them.
  public static let downKeepAlives: Int64 = 2
  public static let keepAliveGrace = Interval.seconds(5)
  /// Probe timeouts after which an address that did not prove itself is given up for the last that did.
  public static let provingProbeTimeouts: Int64 = 3

  /// A direction counts as degraded when more than this was lost of its last datagrams, in percent, and no longer when
  /// this much or less was.
  public static let degradedPercent = 10
  public static let recoveredPercent = 5

  /// Told by the server.
  public static let udpKeepAlive = Interval.seconds(25)
  public static let tcpKeepAlive = Interval.seconds(30)
  public static let idleTimeout = Interval.seconds(75)
  /// What a client makes of less: a server must not keep it busy with its own keep-alive.
  public static let shortestTold = Interval.seconds(1)

  /// LATER: when nobody is there, and when there is no room.
  public static let retryNotOnline = Interval.milliseconds(1000)
  public static let retryNoRoom = Interval.milliseconds(100)
  /// A gap in a conversation is waited for this long while connected.
  public static let gap = Interval.seconds(10)
}

/// Bits of `features`: what an end can do beyond the version. Unknown ones are ignored.
public enum WireFeatures {
  /// The client takes kept outcomes, and says them back.
  public static let keptOutcomes: UInt64 = 1
  /// All that this side knows.
  public static let known = keptOutcomes
}
