/// Runs of many seeds share nothing, so each core may have its own.
enum SeedLanes {
  private static let count: UInt64 = 2

  /// Adds one run after the other to a report of its lane, until one says that it is enough; then the lanes together.
  static func report<Report: Sendable>(
    _ seeds: ClosedRange<UInt64>, into empty: Report,
    add: @escaping @Sendable (inout Report, UInt64) -> Bool, merge: (inout Report, Report) -> Void
  ) async -> Report {
    await withTaskGroup(of: Report.self) { group in
      for lane in 0..<count {
        group.addTask {
          var report = empty
          for seed in stride(from: seeds.lowerBound + lane, through: seeds.upperBound, by: Int(count)) {
            guard add(&report, seed) else { break }
          }
          return report
        }
      }
      return await group.reduce(into: empty, merge)
    }
  }
}
