// SimpConnection
