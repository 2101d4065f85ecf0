package seen

import "context"

// Key returns the text of a key, of which IsCut may be true. If this instance has not seen it, the others are asked.
func (e *Exchange) Key(ctx context.Context, policy, id string) (key string, ok bool) {
	name := keyName{policy, id}
	if !isID(id) {
		return "", false
	}
	if key, ok = e.local(ctx, name); ok || e.opts.Board == nil || e.reason() != "" {
		return key, ok
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	if !e.ask(name, 1) {
		return "", false
	}
	defer e.ask(name, -1)
	e.mark(ctx)
	for e.pause(ctx, askEvery) {
		answers, err := e.opts.Board.Notes(ctx, topicKey)
		if err != nil {
			return "", false
		}
		for _, text := range answers {
			if key, ok := e.find(ctx, text, name); ok {
				return key, true
			}
		}
	}
	return "", false
}

// ask adds an ask, or removes it.
func (e *Exchange) ask(name keyName, n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n > 0 && len(e.asks) >= maxAsks {
		return false
	}
	if e.asks[name] += n; e.asks[name] == 0 {
		delete(e.asks, name)
	}
	e.changed = true
	return true
}

// find returns a key from an answer. Only the key itself has its ID.
func (e *Exchange) find(ctx context.Context, text []byte, name keyName) (key string, ok bool) {
	var a answer
	if decode(text, &a) != nil {
		return "", false
	}
	secret := e.secretNow(ctx)
	for _, one := range a.Keys[:min(len(a.Keys), maxAsks)] {
		if one.keyName == name && len(one.Key) <= maxKey+1 && idOf(secret.key, name.Policy, string(one.Key)) == name.ID {
			return string(one.Key), true
		}
	}
	return "", false
}

// answer posts the keys that a person asked another instance for, if this one knows them.
func (e *Exchange) answer(ctx context.Context, asks []keyName) {
	var a answer
	for _, name := range asks {
		if key, ok := e.local(ctx, name); ok {
			a.Keys = append(a.Keys, answerKey{name, []byte(key)})
		}
	}
	for ; len(a.Keys) > 0; a.Keys = a.Keys[:len(a.Keys)/2] { // what does not fit is asked again
		text, err := encode(&a)
		if err == nil {
			_ = e.opts.Board.Post(ctx, topicKey, e.id, text, noteLife) // it is asked again
			return
		}
	}
}

// local returns a key that this instance has seen.
func (e *Exchange) local(ctx context.Context, name keyName) (key string, ok bool) {
	p := e.record.find(name.Policy)
	if p == nil {
		return "", false
	}
	_, k := p.findID(name.ID, e.secretNow(ctx))
	if k == nil {
		return "", false
	}
	return k.key, true // it does not change
}
