"""The drawing office: facility, fabric and storage of a design, and the rules that judge them."""
