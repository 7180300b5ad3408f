"""What `shortcut-guardrail demo` needs: a real pretrained encoder without a network, and a synthetic corpus."""
