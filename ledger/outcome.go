package ledger

// Outcome says how a request ended, or that it has not.
type Outcome string

// The outcomes. Queued and Running are open; all others are final.
const (
	Queued       Outcome = "queued"
	Running      Outcome = "running"
	Rejected     Outcome = "rejected"      // refused, by the proxy or by the engine's 4xx
	Abandoned    Outcome = "abandoned"     // left the line
	Expired      Outcome = "expired"       // waited too long
	Served       Outcome = "served"        // answered to the end
	EngineFailed Outcome = "engine_failed" // the engine broke off
	ClientGone   Outcome = "client_gone"   // the client left while it ran
	Cancelled    Outcome = "cancelled"     // by the API
	SlotLost     Outcome = "slot_lost"     // the hold on the engine was lost, or the process died
)

// Open reports whether a request with this outcome has not ended.
func (o Outcome) Open() bool { return o == Queued || o == Running }

// Valid reports whether o is one of the outcomes.
func (o Outcome) Valid() bool {
	switch o {
	case Queued, Running, Rejected, Abandoned, Expired, Served, EngineFailed, ClientGone, Cancelled, SlotLost:
		return true
	}
	return false
}
