package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"oneslot/configs"

	"github.com/spf13/cobra"
)

func keyCommand() *cobra.Command {
	parent := &cobra.Command{Use: "key", Short: "Make API keys", Args: noArgs, Run: func(c *cobra.Command, _ []string) { _ = c.Help() }}
	var k configs.Key
	one := &cobra.Command{
		Use: "new", Short: "Make an API key, and its row for the settings", Args: noArgs,
		Long: "new prints a fresh API key, once, and the row that lets it in. The settings hold\nonly its SHA-256, so that a lost key cannot be read back: make another.",
		RunE: func(c *cobra.Command, _ []string) error {
			secret := newSecret()
			hash := sha256.Sum256([]byte(secret))
			k.SHA256 = hex.EncodeToString(hash[:])
			if k.Name == "" {
				k.Name = "key-" + k.SHA256[:8]
			}
			row, err := k.Row()
			if err != nil {
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "The key, shown this once, for whoever is to use it:\n\n  %s\n\nIts row, to go under keys: in the settings:\n\n  %s\n", secret, row)
			return err
		},
	}
	f := one.Flags()
	f.StringVar(&k.Name, "name", "", "stands for the key in the line, the ledger and the log (default: made of its hash)")
	f.StringVar(&k.Class, "class", "", "of requests that name none: interactive, default or batch (default default)")
	f.StringVar(&k.MaxClass, "max-class", "", "highest class that its requests may name (default interactive)")
	f.IntVar(&k.MaxWaiting, "max-waiting", 0, "how many of its requests may wait (default queue.max_waiting_per_key)")
	f.BoolVar(&k.Admin, "admin", false, "may see and cancel everybody's requests, and read /metrics")
	f.StringVar(&k.ReasoningField, "reasoning-field", "", "where its clients get thinking: reasoning_content, reasoning, both, content_tags or hidden (default reasoning.field)")
	f.StringVar(&k.ShareBy, "share-by", "", "whether its users share its slot time among themselves: key or user (default queue.share_by)")
	parent.AddCommand(one)
	return parent
}

// newSecret is 256 bits of chance, in the form that clients expect of a key.
func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return "sk-" + base64.RawURLEncoding.EncodeToString(b)
}
