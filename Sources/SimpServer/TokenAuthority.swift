internal import Glibc
internal import SimpCore
internal import SimpIO
internal import SimpSupport
internal import SimpToken

/// Whose tokens a server takes: its key file, read again on demand, and its rules. Any thread.
final class TokenAuthority: Sendable {
  let path: String
  /// The key was made just now.
  let isKeyNew: Bool
  private let rules: TokenRules
  private let keys: Locked<KeySet>

  /// Reads the file of `configuration.keys`; without one, the key of the state directory, which is made if need be.
  ///
  /// - Throws: what is wrong with the file, with the remedy.
  init(_ configuration: ServerConfiguration, state: StateDirectory) throws(ServerError) {
    path = configuration.keys ?? state.keyPath
    isKeyNew = unsafe configuration.keys == nil && access(state.keyPath, F_OK) != 0
    var rules = TokenRules()
    rules.audience = configuration.audience
    rules.issuer = configuration.issuer
    rules.leewaySeconds = UInt64(configuration.leeway.components.seconds)
    self.rules = rules
    do throws(TokenError) {
      keys = Locked(isKeyNew ? KeySet(try TokenKey.make(path: path)) : try KeySet.load(path: path))
    } catch {
      throw ServerError("\(error)")
    }
  }

  var leewaySeconds: UInt64 { rules.leewaySeconds }

  /// Reads the file again, for logins to come. The keys in force stay if it is not good.
  func reload() throws(ServerError) {
    do throws(TokenError) {
      let read = try KeySet.load(path: path)
      keys.withLock { $0 = read }
    } catch {
      throw ServerError("\(error)")
    }
  }

  var facts: Server.Keys {
    let keys = keys.withLock { $0 }
    return Server.Keys(
      path: path, isNew: isKeyNew, names: keys.keys.map { "\($0.name ?? "unnamed") \($0.algorithm.rawValue)" },
      passedOver: keys.passedOver)
  }

  /// What a token is good for, or why it is good for nothing.
  func check(_ token: String, wallClockSeconds now: UInt64) -> Result<TokenClaims, LoginFailure> {
    do throws(TokenError) {
      let claims = try Tokens.check(token, keys: keys.withLock { $0 }, rules: rules, now: now)
      let (ends, overflow) = claims.expires.addingReportingOverflow(rules.leewaySeconds)
      return .success(
        TokenClaims(
          user: claims.user, ends: overflow ? .max : ends, issued: claims.issued, isAdmin: claims.isAdmin))
    } catch {
      return .failure(LoginFailure(refusal: Refusal(Self.code(error.code), error.description)))
    }
  }

  private static func code(_ code: TokenError.Code) -> ErrorCode {
    switch code {
    case .expired: .tokenExpired
    case .notYetValid: .tokenNotYetValid
    case .otherAudience: .tokenAudience
    case .otherIssuer: .tokenIssuer
    case .unknownKey: .tokenKeyUnknown
    case .badUser: .nameInvalid
    case .malformed, .badSignature, .noExpiry, .badKey, .keyExists, .failed: .tokenInvalid
    }
  }
}
