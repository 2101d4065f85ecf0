package memstore

// Stamps are times of which only the low bits are kept, packed into the words of a line.

const (
	narrow = 32 // bits of a narrow stamp
	wide   = 48
)

// stamp returns the i-th stamp, counted from a word of the line.
func stamp(l *line, word, width, i uint) uint64 {
	bit := i * width
	word, bit = word+bit/64, bit%64
	v := l[word%lineWords].Load() >> bit
	if bit+width > 64 {
		v |= l[(word+1)%lineWords].Load() << (64 - bit)
	}
	return v & (1<<width - 1)
}

// narrowStamp is stamp for narrow stamps, with fewer instructions.
func narrowStamp(l *line, word, i uint) uint64 {
	return uint64(uint32(l[(word+i/2)%lineWords].Load() >> (i % 2 * narrow)))
}

// setStamp writes the i-th stamp, in a busy slot.
func setStamp(l *line, word, width, i uint, v uint64) {
	bit := i * width
	word, bit = word+bit/64, bit%64
	mask := uint64(1)<<width - 1
	word %= lineWords
	l.change(int(word), l[word].Load()&^(mask<<bit)|v<<bit)
	if bit+width > 64 {
		word = (word + 1) % lineWords
		l.change(int(word), l[word].Load()&^(mask>>(64-bit))|v>>(64-bit))
	}
}

// setNarrowStamp is setStamp for narrow stamps.
func setNarrowStamp(l *line, word, i uint, v uint32) {
	at := &l[(word+i/2)%lineWords]
	if i%2 == 0 {
		put(at, withLower(at.Load(), v))
	} else {
		put(at, withUpper(at.Load(), v))
	}
}

// setStamps writes stamps from the i-th on, each word once.
func setStamps(l *line, word, width, i uint, stamps []uint64) {
	bit := i * width
	word, bit = word+bit/64, bit%64
	v := l[word%lineWords].Load() & (1<<bit - 1)
	for _, stamp := range stamps {
		v |= stamp << bit
		if bit += width; bit >= 64 {
			put(&l[word%lineWords], v)
			word, bit = word+1, bit-64
			v = stamp >> (width - bit)
		}
	}
	if bit > 0 {
		at := &l[word%lineWords]
		put(at, v|at.Load()>>bit<<bit)
	}
}
