package policy

// DefaultClass is the name of the class of requests that name none, or one that the policy does not list.
const DefaultClass = "default"

// Class is a class of requests that may use only a part of the policy's limits: of the quota or, for a token bucket, of the burst,
// which still refills at the same rate. The parts are rounded down, and are at least 1. All classes share the counts, so what one of
// them has used is used for all, and a class is refused as soon as they have used its part together. What lies above its part remains
// for classes with a larger one.
//
// Limits that are leased or count refused requests cannot have classes, and neither can a policy with a penalty: a class could then
// use up, or keep others out of, more than its part.
type Class struct {
	Name string
	// Percent is the part of the limits, 1 to 100.
	Percent int
}
