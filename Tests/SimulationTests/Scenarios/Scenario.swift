import SimpCore

/// A network, people, and what happens to them.
struct Scenario: Sendable {
  var name: String
  var up = LinkConditions()
  var down = LinkConditions()
  var flows: [Flow] = Flow.pair
  var reactors = 1
  var keyLimits = KeyLimits()
  /// How often keys have to change in each direction, all clients and sessions of a run together.
  var leastKeyChanges: UInt64 = 0
  var storeDelay = Interval.zero
  /// The store takes messages for who is away.
  var keepsInboxes = false
  /// When the store is away: what it is asked at the edges it may have done without an answer.
  var storeAway: [Range<Interval>] = []
  /// How many messages have to go into an inbox in each run.
  var leastStored = 0
  var streamUp = StreamConditions()
  var streamDown = StreamConditions()
  /// When TCP passes nothing either way, counted from the beginning.
  var stalls: [Range<Interval>] = []
  /// When UDP passes nothing either way.
  var udpOff: [Range<Interval>] = []
  /// When a client's process does not run, by its name.
  var clientSleeps: [String: [Range<Interval>]] = [:]
  var serverSleeps: [Range<Interval>] = []
  /// Who is there from the beginning; `script` brings the others.
  var online = ["alice", "bob"]
  /// Prepares clients and says what happens when.
  var script: @Sendable (World) -> Void = { _ in }

  /// What the network has to have done in each run, and over all runs each way.
  var deeds: [Deed] = []
  /// What it has to have done over all runs, each way: what is too rare for a single one.
  var rareDeeds: [Deed] = []
  /// What it has to have done in each run, one way.
  var deedsOneWay: [Deed] = []
  /// How many messages may come late, that is after the wait for them was given up.
  var lateAllowed = 0
  /// How long a message may take from `send` to the application, at most.
  var latencyLimit = Interval.seconds(10)
  /// The share of messages that has to come by UDP first, over all runs.
  var leastByUDP = 0.0
  var mostByUDP = 1.0
  /// A run that takes longer is stuck.
  var timeLimit = Interval.seconds(180)
  /// How often a client and the network may stir in a minute of silence: keep-alives and proofs, each with its answer,
  /// and where datagrams are lost their repetition.
  var quietSteps = 45
  /// The network is well again when all is said: what then stirs is no repair.
  var heals = false
  /// Datagrams of one client, both ways together, in a minute of silence: keep-alives and their receipts.
  var quietDatagrams = 60
  /// Somebody forged addresses.
  var expectsForgery = false
  /// The most that a message may be sent again, over all messages of a run.
  var mostSentAgain = 20.0
}

/// One conversation: who sends how much, when.
struct Flow: Sendable {
  var from: String
  var to: String
  var count: Int
  var begin = Interval.milliseconds(100)
  /// The mean time between two sends; several messages leave together now and then.
  var pause = Interval.milliseconds(30)

  static let pair = [
    Flow(from: "alice", to: "bob", count: 150), Flow(from: "bob", to: "alice", count: 100),
    Flow(from: "alice", to: "carol", count: 50, pause: .milliseconds(60)),
  ]
  static func oneWay(_ count: Int = 200, pause: Interval = .milliseconds(30)) -> [Flow] {
    [Flow(from: "alice", to: "bob", count: count, pause: pause)]
  }
}
