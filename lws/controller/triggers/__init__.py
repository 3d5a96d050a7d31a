"""From changes of objects to passes."""
