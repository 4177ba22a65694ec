/// One flag of a command line. A setting may also come from the environment and the configuration file.
public struct Flag: Sendable {
  /// Without the dashes: `udp-port`.
  public let name: String
  /// The one-letter form, if there is one: `n` for `-n`.
  public let short: Character?
  /// What stands for the value in the help, in capitals; nil for a switch, which takes none.
  public let placeholder: String?
  /// One line for the help.
  public let help: String
  /// Whether `SIMP_UDP_PORT` and a line `udp-port …` in the configuration file say the same.
  public let isSetting: Bool
  /// The value when nothing gives one. For a switch, nil means off.
  public let defaultValue: String?

  /// - Parameters:
  ///   - name: lower-case letters, digits and dashes.
  ///   - placeholder: nil makes a switch.
  public init(
    _ name: String, short: Character? = nil, placeholder: String? = nil, default defaultValue: String? = nil,
    isSetting: Bool = false, help: String
  ) {
    self.name = name
    self.short = short
    self.placeholder = placeholder
    self.defaultValue = defaultValue
    self.isSetting = isSetting
    self.help = help
  }

  /// `SIMP_` and the name in capitals with underscores.
  public var environmentName: String {
    "SIMP_" + String(name.uppercased().map { $0 == "-" ? "_" : $0 })
  }
}
