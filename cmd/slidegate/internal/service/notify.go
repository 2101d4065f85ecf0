package service

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/notify"
	"github.com/slidegate/slidegate/config"
)

// maxSecretFile bounds what is read of a file with a secret.
const maxSecretFile = 4 << 10

// lastEvents is how long the events that wait for the webhook may take when the service ends.
const lastEvents = 5 * time.Second

// checkWebhook checks the options of the webhook, except for the content of its file.
func (o *Options) checkWebhook() error {
	switch {
	case o.Webhook == "" && o.WebhookSecretFile != "":
		return invalid("WebhookSecretFile", "nothing is signed without a webhook; give its URL too")
	case o.Webhook == "":
		return nil
	}
	if err := notify.CheckURL(o.Webhook); err != nil {
		return invalid("Webhook", "%w", err)
	}
	if o.WebhookSecretFile == "" {
		return invalid("Webhook", "needs a secret, so that its receiver can tell the events from others'; set --webhook-secret-file too")
	}
	return nil
}

// openNotifier starts what makes and delivers events.
func (s *Server) openNotifier() error {
	hook := notify.Webhook{URL: s.opts.Webhook, Agent: "slidegate/" + cmp.Or(s.opts.Version, "devel")}
	if hook.URL != "" {
		var err error
		if hook.Secret, err = s.readWebhookSecret(); err != nil {
			return err
		}
	}
	keys := s.refusals // so that a key has the same hash in both
	if keys == nil {
		keys = newRefusalLog(LogRefusalsHashed, s.log, s.gate.LimitsOf)
	}
	s.notifier = notify.New(notify.Options{
		Store: s.stores.Store, Instance: instanceName(), Logger: s.log, Webhook: hook,
		KeyAttr: func(key string) slog.Attr { return keys.keyAttr(key) },
	})
	s.announceThresholds(s.opts.File)
	return nil
}

func (s *Server) readWebhookSecret() ([]byte, error) {
	text, err := os.ReadFile(s.opts.WebhookSecretFile)
	if err != nil {
		return nil, invalid("WebhookSecretFile", "%w", err)
	}
	secret, err := notify.ReadSecret(string(text[:min(len(text), maxSecretFile)]))
	if err != nil {
		return nil, invalid("WebhookSecretFile", "%w", err)
	}
	return secret, nil
}

// reloadWebhookSecret reads the secret again, and reports whether it changed.
func (s *Server) reloadWebhookSecret() (changed bool, err error) {
	if s.opts.Webhook == "" {
		return false, nil
	}
	secret, err := s.readWebhookSecret()
	return err == nil && s.notifier.SetSecret(secret), err
}

// announceThresholds starts the counts of a file's thresholds.
func (s *Server) announceThresholds(file *config.File) {
	for i := range file.Policies {
		s.notifier.Announce(file.Policies[i].Name, file.Policies[i].Notify)
	}
}

// crossed makes an event of a crossing.
func (s *Server) crossed(c gate.Crossing) { s.notifier.Crossed(c) }

// followEvents serves GET /v1/events.
func (s *Server) followEvents(w http.ResponseWriter, r *http.Request) {
	s.notifier.ServeEvents(w, r, s.drained.Done())
}

// closeNotifier delivers what it can in a short time.
func (s *Server) closeNotifier() {
	if s.notifier != nil {
		ctx, cancel := context.WithTimeout(context.Background(), lastEvents)
		defer cancel()
		s.notifier.Close(ctx)
	}
}
