/// The word of `candidates` that `word` was probably meant to be: at most 2 letters wrong, swapped, missing or too many
/// (1 in words of up to 3), or the only one that begins like it. Nil when nothing is near.
public func nearest(to word: String, among candidates: [String]) -> String? {
  let limit = word.count <= 3 ? 1 : 2
  let ranked = candidates.map { (word: $0, distance: distance(Array(word), Array($0))) }
  if let best = ranked.min(by: { $0.distance < $1.distance }), best.distance <= limit { return best.word }
  let longer = candidates.filter { word.count >= 2 && $0.hasPrefix(word) }
  return longer.count == 1 ? longer[0] : nil
}

/// Letters to change, add, drop or swap with their neighbour to get from one word to the other.
private func distance(_ left: [Character], _ right: [Character]) -> Int {
  var beforeLast: [Int] = []
  var last = Array(0...right.count)
  for row in 1..<(left.count + 1) {
    var current = [row]
    for column in 1..<(right.count + 1) {
      let change = last[column - 1] + (left[row - 1] == right[column - 1] ? 0 : 1)
      var best = min(change, last[column] + 1, current[column - 1] + 1)
      if row > 1, column > 1, left[row - 1] == right[column - 2], left[row - 2] == right[column - 1] {
        best = min(best, beforeLast[column - 2] + 1)
      }
      current.append(best)
    }
    beforeLast = last
    last = current
  }
  return last[right.count]
}
