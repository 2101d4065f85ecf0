package service

import (
	"log/slog"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
)

// logFile logs the warnings about the policy files, and which policies have an in-flight limit: proxies that send requests to /v1/check,
// and clients that use allow, get an error for them, because nothing would release the slot.
func (s *Server) logFile(file *config.File) {
	for _, warning := range file.Warnings {
		s.log.Warn(warning.Error())
	}
	if s.opts.HTTP == "" && s.opts.RESP == "" {
		return // no such request is possible; the proxy holds a slot while its request runs
	}
	for _, name := range gate.SlotPolicies(file) {
		s.log.Warn("policy has an in-flight limit, so use /v1/acquire: /v1/allow, /v1/check and SG.ALLOW return an error, "+
			"because nothing would release the slot; give the policy a match that no request to /v1/check fits, or use slidegate proxy", slog.String("policy", name))
	}
}
