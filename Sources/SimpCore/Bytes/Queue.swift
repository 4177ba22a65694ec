/// First in, first out, without shifting the rest at each removal.
struct Queue<Element> {
  private var elements: [Element] = []
  private var head = 0

  init() {}

  var isEmpty: Bool { head == elements.count }
  var count: Int { elements.count - head }
  var first: Element? { head < elements.count ? elements[head] : nil }

  mutating func append(_ element: Element) { elements.append(element) }

  mutating func removeFirst() {
    precondition(head < elements.count, "removeFirst() on an empty queue")
    head += 1
    if head == elements.count {
      elements.removeAll(keepingCapacity: head <= 1024)
      head = 0
    } else if head > 64, head > elements.count / 2 {
      elements.removeSubrange(0..<head)
      head = 0
    }
  }

  mutating func popFirst() -> Element? {
    guard let element = first else { return nil }
    removeFirst()
    return element
  }
}
