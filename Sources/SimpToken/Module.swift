// SimpToken
