/// `text` with everything that could act on a terminal or break a line made visible: control characters (C0, DEL, C1),
/// line and paragraph separators, and the marks that turn the direction of writing come out as `\n`, `\t`, `\r` or
/// `\u{…}`. Letters of every script stay.
public func printable(_ text: String) -> String {
  guard text.unicodeScalars.contains(where: acts) else { return text }
  var result = ""
  for scalar in text.unicodeScalars {
    if acts(scalar) { result += escape(scalar) } else { result.unicodeScalars.append(scalar) }
  }
  return result
}

/// `text` in double quotes, made printable, with quotes and backslashes inside escaped; cut after 200 characters.
public func quoted(_ text: String) -> String {
  var result = "\""
  for scalar in text.prefix(200).unicodeScalars {
    switch scalar {
    case "\"": result += "\\\""
    case "\\": result += "\\\\"
    default: if acts(scalar) { result += escape(scalar) } else { result.unicodeScalars.append(scalar) }
    }
  }
  return result + (text.count > 200 ? "…\"" : "\"")
}

private func acts(_ scalar: Unicode.Scalar) -> Bool {
  switch scalar.value {
  case 0..<0x20, 0x7F..<0xA0: true
  case 0x2028...0x202E, 0x2066...0x2069, 0x200E, 0x200F, 0x061C, 0xFEFF: true
  default: false
  }
}

private func escape(_ scalar: Unicode.Scalar) -> String {
  switch scalar {
  case "\n": "\\n"
  case "\r": "\\r"
  case "\t": "\\t"
  default: "\\u{\(String(scalar.value, radix: 16))}"
  }
}
