package seen

import "time"

// Document is what the instances have seen, for people: GET /v1/seen.
type Document struct {
	Now  time.Time `json:"now"`
	Self string    `json:"self"` // the ID of the instance that answers
	// Scope is all if the instances that share the store are shown, and this if only the one that answers is, for the reason Why. If some
	// cannot be read, it is all, and Why says so. What the others have seen is as of Instance.Seen, so that sums are lower bounds.
	Scope     string     `json:"scope"`
	Why       string     `json:"why"`
	Instances []Instance `json:"instances"`
	Policies  []Policy   `json:"policies"`
	// Keys has lists by window: the current minute and the 1, 5 or 60 before it.
	Keys map[string]Keys `json:"keys"`
}

// Cut returns the document with lists of at most n keys.
func (d *Document) Cut(n int) *Document {
	short := *d
	short.Keys = map[string]Keys{}
	for window, keys := range d.Keys {
		short.Keys[window] = Keys{Refused: keys.Refused[:min(len(keys.Refused), n)], Nearest: keys.Nearest[:min(len(keys.Nearest), n)]}
	}
	return &short
}

// Instance is one instance of the service.
type Instance struct {
	ID            string    `json:"id"`
	Name          string    `json:"name"` // host:pid
	Version       string    `json:"version"`
	Config        string    `json:"config"` // the hash of the configuration in force
	Started       time.Time `json:"started"`
	Seen          time.Time `json:"seen"` // when what it has seen was last read
	Alive         bool      `json:"alive"`
	Health        string    `json:"health"` // as /readyz says it
	RestartNeeded []string  `json:"restart_needed"`
	Store         string    `json:"store"`
	WithoutStore  bool      `json:"without_store"` // failure modes decide, because the store does not answer
	// Latency is of the decisions of the last minute, in milliseconds; 0 if there were none.
	Latency   Latency `json:"latency_ms"`
	LeasesOut int64   `json:"leases_out"` // units that were leased and are not spent yet
	HoldsOut  int64   `json:"holds_out"`  // requests that hold slots or units
}

// Latency has two quantiles, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Policy is one policy over all instances.
type Policy struct {
	Name      string   `json:"name"`
	Shadow    bool     `json:"shadow"`
	Limits    []string `json:"limits"`
	Varies    bool     `json:"varies"`     // the plan of a request selects other limits than Limits
	Minutes   []Minute `json:"minutes"`    // of the last hour; those without decisions are left out
	LeasesOut int64    `json:"leases_out"` // units that instances leased and that are not spent yet
	HoldsOut  int64    `json:"holds_out"`  // requests that hold slots or units
	Waiting   int64    `json:"waiting"`    // requests that wait in line
}

// Minute counts the decisions of one minute.
type Minute struct {
	At            time.Time `json:"at"`
	Admitted      int64     `json:"admitted"`
	Refused       int64     `json:"refused"`
	ShadowRefused int64     `json:"shadow_refused"`
	WithoutStore  int64     `json:"without_store"` // of the others
}

// Keys are the keys of a window.
type Keys struct {
	Refused []Key `json:"refused"` // the most refused first; those that were only refused in shadow mode last
	Nearest []Key `json:"nearest"` // those that were not refused and have used most of a limit
}

// Key is one key, masked.
type Key struct {
	Policy   string  `json:"policy"`
	ID       string  `json:"id"` // POST /v1/seen/key returns the key
	Masked   string  `json:"masked"`
	Admitted int64   `json:"admitted"`
	Refused  int64   `json:"refused"`
	AtLeast  bool    `json:"at_least"` // there may be more: what was forgotten, or is of an instance that does not write the key
	By       string  `json:"by"`       // what refused it most: that of the first of Causes; empty if nothing did
	Limit    string  `json:"limit"`    // that refused it most, or that it is near to
	Share    float64 `json:"share"`    // of the limit that is used, from 0 to 1
	Shadow   bool    `json:"shadow"`   // it was admitted all the same, because of shadow mode
	// ShadowRefused counts those of Refused that were admitted, because of shadow mode.
	ShadowRefused int64 `json:"shadow_refused"`
	// Causes are what refused it in the window, what refused it most first.
	Causes []Cause `json:"causes"`
	// Plan is the one by which it was decided last: it selects the limits of the policy that apply to it.
	Plan string `json:"plan"`
	// Cut says that the key is too long to be kept, so that only its beginning is known and nothing can be done about it.
	Cut    bool      `json:"cut"`
	Last   time.Time `json:"last"`   // when it was last refused, or seen at all
	Routes []string  `json:"routes"` // that it uses most
	// Instances are the IDs of those that have seen it.
	Instances []string `json:"instances"`
}

// Cause is one of the reasons why a key was refused.
type Cause struct {
	By      string `json:"by"`
	Limit   string `json:"limit"`  // empty if no limit refused
	Shadow  bool   `json:"shadow"` // in shadow mode, so that it was admitted
	Refused int64  `json:"refused"`
}

// Windows are the windows of Document.Keys, in minutes.
var Windows = [...]int64{1, 5, 60}

// windowNames are their names.
var windowNames = [...]string{"1", "5", "60"}
