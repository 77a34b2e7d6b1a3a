"""Reports: results as text, HTML, LaTeX and Markdown."""
