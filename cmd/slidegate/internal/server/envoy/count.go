package envoy

// Rules returns how many descriptors of the domain have a rate limit.
func (d *Domain) Rules() int { return d.root.rules() }

func (l *level) rules() (n int) {
	for one := range l.all() {
		n += one.rules()
	}
	return n
}

func (n *node) rules() int {
	below := n.next.rules()
	if n.rule != nil {
		below++
	}
	return below
}
