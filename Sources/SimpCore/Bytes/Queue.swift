/// First in, first out, without shifting the rest at each removal.
package struct Queue<Element> {
  private var elements: [Element] = []
  private var head = 0

  package init() {}

  package var isEmpty: Bool { head == elements.count }
  package var count: Int { elements.count - head }
  package var first: Element? { head < elements.count ? elements[head] : nil }

  package mutating func append(_ element: Element) { elements.append(element) }

  package mutating func removeFirst() {
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

  package mutating func popFirst() -> Element? {
    guard let element = first else { return nil }
    removeFirst()
    return element
  }
}
